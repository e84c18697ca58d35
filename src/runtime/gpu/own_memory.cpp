// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/own_memory.h"

#include <cstdint>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

std::string says(const OwnGpu& own, const char* argument) {
  return "rank " + std::to_string(own.rank) + ": " + argument;
}

void require_usable(const OwnGpu& own, const void* memory, const char* argument, DType dtype, int device) {
  if (device == kUnknownDevice) require_own(own, memory, argument);
  // Of an element in two parts a GPU's kernel faults, and with it all else of the process that runs there.
  if (reinterpret_cast<std::uintptr_t>(memory) % size_of(dtype) != 0)
    throw UsageError(says(own, argument) + " does not begin at a multiple of the " + std::to_string(size_of(dtype)) +
                     " bytes of " + std::string(name_of(dtype)) + "; a GPU's memory has to");
}

}  // namespace

void require_own(const OwnGpu& own, const void* memory, const char* argument) {
  if (memory == nullptr) return;
  const gpu::Device::Current current(own.device);
  int ordinal = -1;
  const int result = own.device.driver().cuPointerGetAttribute(&ordinal, gpu::kPointerDeviceOrdinal,
                                                               reinterpret_cast<gpu::Address>(memory));
  if (result != gpu::kSuccess || ordinal != own.device.ordinal())
    throw UsageError(says(own, argument) + " does not lie on GPU " + std::to_string(own.device.ordinal()) +
                     ", which this communicator uses");
}

void require_usable(const OwnGpu& own, const void* in, const void* out, DType dtype, int device) {
  require_usable(own, in, "input", dtype, device);
  require_usable(own, out, "output", dtype, device);
}

}  // namespace lanecast
