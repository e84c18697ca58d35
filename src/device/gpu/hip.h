// SPDX-License-Identifier: Apache-2.0
// What only HIP has, AMD's runtime: numbers of its header, and the name of a GPU's architecture.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/shared_library.h"

namespace lanecast::gpu {

/// hipDeviceAttribute_t in the order of Attribute.
inline constexpr std::array kHipAttributes{87, 63, 23, 61};
inline constexpr unsigned kHipFineGrained = 1;  // hipDeviceMallocFinegrained: seen by other devices while kernels run
inline constexpr unsigned kHipCoherent = 0x40000000;        // hipHostMallocCoherent
inline constexpr unsigned kHipOldLazyEnablePeerAccess = 0;  // up to HIP 5
inline constexpr int kHipAnyDirection = 4;                  // hipMemcpyDefault

/// hipDeviceProp_t, as far as it is looked at. Its layout has changed once, with ROCm 6, and so did the call's name.
struct HipProperties {
  const char* call;
  std::size_t architecture;  // where gcnArchName lies
};
inline constexpr HipProperties kHipProperties6{"hipGetDevicePropertiesR0600", 1160};
inline constexpr HipProperties kHipProperties5{"hipGetDeviceProperties", 396};
inline constexpr std::size_t kHipNameBytes = 256;         // of gcnArchName
inline constexpr std::size_t kHipPropertiesBytes = 4096;  // more than either layout has

/// "gfx90a", without what may follow (":sramecc+:xnack-").
std::string hip_architecture(const SharedLibrary& hip, int device);

}  // namespace lanecast::gpu
