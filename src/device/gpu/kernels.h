// SPDX-License-Identifier: Apache-2.0
// The library's kernels on one device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "device/gpu/device.h"
#include "device/gpu/owned.h"

namespace lanecast::gpu {

/// All of them are on the device when the constructor returns: one that loads later, at its first launch, would wait
/// for kernels that run, and they may be waiting for it.
class Kernels {
 public:
  /// cubin: from machine_code().
  Kernels(std::shared_ptr<Device> device, const std::string& cubin);

  /// Throws InternalError for a kernel that is not in the source.
  Function get(std::string_view name) const;

 private:
  Owned<Module> module_;
  std::map<std::string, Function, std::less<>> functions_;
};

}  // namespace lanecast::gpu
