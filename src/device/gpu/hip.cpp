// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/hip.h"

#include <cstring>

#include "base/error.h"

namespace lanecast::gpu {
namespace {

using GetProperties = int (*)(void*, int);

}  // namespace

std::string hip_architecture(const SharedLibrary& hip, int device) {
  HipProperties layout = kHipProperties6;
  GetProperties get = hip.optional(layout.call);
  if (get == nullptr) {
    layout = kHipProperties5;
    get = hip.required(layout.call);
  }
  alignas(16) std::array<char, kHipPropertiesBytes> properties{};
  if (const int result = get(properties.data(), device); result != 0)
    throw TransportError(std::string(layout.call) + ": error " + std::to_string(result));
  const char* const name = properties.data() + layout.architecture;
  return {name, strcspn(name, ":")};
}

}  // namespace lanecast::gpu
