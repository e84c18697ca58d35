// SPDX-License-Identifier: Apache-2.0
// What HIP has otherwise than CUDA's driver. Its other calls are CUDA's by other names, which the linker gives them;
// see tests/gpu_host_library.py.
#include <cstdint>
#include <cstring>

#include "driver_state.h"

namespace gpu_host {
namespace {

constexpr unsigned kFineGrained = 1, kCoherent = 0x40000000;
constexpr int kAnyDirection = 4;
constexpr std::size_t kArchitecture = 1160;  // in hipDeviceProp_tR0600

}  // namespace

extern "C" {

int cuGetErrorName(int result, const char** name);
int cuGetErrorString(int result, const char** text);
int cuCtxPushCurrent_v2(Device* context);
int cuCtxPopCurrent_v2(Device** context);
int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes);
int cuMemHostAlloc(void** host, std::size_t bytes, unsigned flags);
int cuMemcpyAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, Queue* stream);

int hipDriverGetVersion(int* version) { return *version = 60243483, kOk; }
const char* hipGetErrorName(int result) {
  const char* name = nullptr;
  return cuGetErrorName(result, &name) == kOk ? name : "hipErrorUnknown";
}
const char* hipGetErrorString(int result) {
  const char* text = nullptr;
  return cuGetErrorString(result, &text) == kOk ? text : "unknown";
}

int hipDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 87 ? 32 : attribute == 63 ? 110 : 0, kOk;  // the kernels' warps are those of the CPU
}
int hipGetDevicePropertiesR0600(char* properties, int) {
  return std::strcpy(properties + kArchitecture, "gfx90a:sramecc+:xnack-"), kOk;
}

/// Every thread has a device from the start.
int hipGetDevice(int* device) { return *device = current() ? current()->ordinal : 0, kOk; }
int hipSetDevice(int device) {
  Device* before = nullptr;
  while (current() != nullptr) cuCtxPopCurrent_v2(&before);
  state().devices[device].ordinal = device;
  return cuCtxPushCurrent_v2(&state().devices[device]);
}

int hipExtMallocWithFlags(void** memory, std::size_t bytes, unsigned flags) {
  return flags == kFineGrained ? cuMemAlloc_v2(reinterpret_cast<std::uint64_t*>(memory), bytes) : kInvalidValue;
}
int hipHostMalloc(void** memory, std::size_t bytes, unsigned flags) {
  return flags & kCoherent ? cuMemHostAlloc(memory, bytes, flags) : kInvalidValue;
}
int hipMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, Queue* stream) {
  if (kind != kAnyDirection) return kInvalidValue;
  return cuMemcpyAsync(reinterpret_cast<std::uint64_t>(to), reinterpret_cast<std::uint64_t>(from), bytes, stream);
}

}  // extern "C"

}  // namespace gpu_host
