// SPDX-License-Identifier: Apache-2.0
// What a call's buffers have to be for its GPU.
#pragma once

#include "base/dtype.h"
#include "device/gpu/device.h"

namespace lanecast {

/// The device of memory of which the caller does not say it.
constexpr int kUnknownDevice = -1;

/// Whose memory it has to be.
struct OwnGpu {
  const gpu::Device& device;
  int rank;
};

/// Throws UsageError for what does not lie on this rank's GPU; costs a question to the driver.
void require_own(const OwnGpu& own, const void* memory, const char* argument);

/// The same of a collective's buffers, where nobody says that they lie on it: device is kUnknownDevice. Throws as well
/// for such as begin within an element.
void require_usable(const OwnGpu& own, const void* in, const void* out, DType dtype, int device);

}  // namespace lanecast
