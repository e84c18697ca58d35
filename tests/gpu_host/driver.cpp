// SPDX-License-Identifier: Apache-2.0
// Start, devices, contexts and errors of a driver without a GPU, and what tests ask it.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "driver_state.h"

namespace gpu_host {
namespace {

thread_local std::vector<Device*> contexts;
constexpr int kRelaxed = 2;
thread_local int capture_mode = 0;  // global

}  // namespace

State& state() {
  static State* const only = new State;
  return *only;
}

namespace {

/// 0 where nothing is arranged for this call of the name; else it is no longer.
int taken(std::map<std::string, Arrangement>& arranged, const char* call) {
  const std::lock_guard lock(state().mutex);
  const auto found = arranged.find(call);
  if (found == arranged.end() || found->second.after-- > 0) return 0;
  return arranged.extract(found).mapped().value;
}

}  // namespace

int arranged(const char* call) {
  if (taken(state().ending, call) != 0) std::raise(SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(taken(state().slow, call)));
  return taken(state().failing, call);
}

bool spoils_a_capture(bool whatever_mode) {
  if (!state().captures || (capture_mode == kRelaxed && !whatever_mode)) return false;
  ++state().spoilt;
  return true;
}

Device* current() { return contexts.empty() ? nullptr : contexts.back(); }

extern "C" {

/// What has not been given back: "memory 1 opened 0 pinned 0 streams 0 events 0 modules 0 contexts 0".
const char* gpu_host_held() {
  thread_local char text[200];
  const std::lock_guard lock(state().mutex);
  int opened = 0, retained = 0;
  for (const auto& [address, allocation] : state().memory) opened += allocation.opened;
  for (const Device& device : state().devices) retained += device.retained;
  const int memory = static_cast<int>(state().memory.size() + state().reserved.size()) - opened + state().physical_made;
  opened += state().physical_imported;
  std::snprintf(text, sizeof text, "memory %d opened %d pinned %d streams %d events %d modules %d contexts %d", memory,
                opened, static_cast<int>(state().pinned.size()), state().streams.load(), state().events.load(),
                state().modules.load(), retained);
  return text;
}

void gpu_host_fail_next(const char* call, int result, int after) {
  const std::lock_guard lock(state().mutex);
  state().failing[call] = {result, after};
}
/// Returns whether it still was to come.
int gpu_host_fail_no_more(const char* call) {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(state().failing.erase(call));
}

void gpu_host_slow_next(const char* call, int ms) {
  const std::lock_guard lock(state().mutex);
  state().slow[call] = {ms};
}
void gpu_host_end_in(const char* call, int after) {
  const std::lock_guard lock(state().mutex);
  state().ending[call] = {1, after};
}

int gpu_host_torn() { return state().torn; }

void gpu_host_capture(int status) { state().capturing = status; }

void gpu_host_capture_globally(int on) { state().captures = on != 0; }
int gpu_host_spoilt() { return state().spoilt; }
int cuThreadExchangeStreamCaptureMode(int* mode) { return std::swap(*mode, capture_mode), kOk; }

int cuInit(unsigned) { return std::getenv("GPU_HOST_NO_GPU") ? 100 : arranged("cuInit"); }
int cuDriverGetVersion(int* version) { return *version = 13000, kOk; }
int cuGetErrorName(int result, const char** name) {
  switch (result) {
    case kOutOfMemory:
      return *name = "CUDA_ERROR_OUT_OF_MEMORY", kOk;
    case 100:
      return *name = "CUDA_ERROR_NO_DEVICE", kOk;
    case kInvalidContext:
      return *name = "CUDA_ERROR_INVALID_CONTEXT", kOk;
    default:
      return kInvalidValue;
  }
}
int cuGetErrorString(int result, const char** text) {
  return result == kOutOfMemory ? (*text = "out of memory", kOk) : kInvalidValue;
}

int cuDeviceGetCount(int* count) { return *count = static_cast<int>(state().devices.size()), kOk; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, kOk; }
int cuDeviceGetName(char* name, int bytes, int) {
  if (const int result = arranged("cuDeviceGetName")) return result;
  const char* const named = std::getenv("GPU_HOST_NAME");
  return std::snprintf(name, bytes, "%s", named ? named : "GPU on the host"), kOk;
}
int cuDeviceGetUuid_v2(std::array<char, 16>* uuid, int device) {
  if (const int result = arranged("cuDeviceGetUuid")) return result;
  uuid->fill(static_cast<char>(0xA0 + device));
  return kOk;
}
int cuDeviceGetPCIBusId(char* id, int bytes, int device) {
  if (const int result = arranged("cuDeviceGetPCIBusId")) return result;
  return std::snprintf(id, bytes, "0000:%02X:00.0", device), kOk;
}
int cuDeviceGetByPCIBusId(int* device, const char* id) { return std::sscanf(id, "0000:%X", device) == 1 ? 0 : 1; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (const int result = arranged("cuDeviceGetAttribute")) return result;
  switch (attribute) {
    case 10:
      return *value = 32, kOk;
    case 16:
      return *value = 132, kOk;
    case 75:
      return *value = 9, kOk;
    case 97:  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
      return *value = 227 << 10, kOk;
    case 120:  // CLUSTER_LAUNCH
      return *value = 1, kOk;
    case 132:  // MULTICAST_SUPPORTED
      return *value = std::getenv("GPU_HOST_MULTICAST") != nullptr, kOk;
    case 118:  // GPU_DIRECT_RDMA_WRITES_ORDERING
      return *value = 100, kOk;
    default:
      return *value = 0, kOk;
  }
}
int cuDeviceCanAccessPeer(int* can, int, int) { return *can = std::getenv("GPU_HOST_NO_PEERS") ? 0 : 1, kOk; }

int cuDevicePrimaryCtxRetain(Device** context, int device) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  if (const int result = arranged("cuDevicePrimaryCtxRetain")) return result;
  const std::lock_guard lock(state().mutex);
  *context = &state().devices[device];
  (*context)->ordinal = device;
  ++(*context)->retained;
  return kOk;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  const std::lock_guard lock(state().mutex);
  return --state().devices[device].retained, kOk;
}
int cuCtxPushCurrent_v2(Device* context) { return contexts.push_back(context), kOk; }
int cuCtxPopCurrent_v2(Device** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kOk;
}
int cuCtxGetCurrent(Device** context) { return *context = current(), kOk; }
int cuCtxGetDevice(int* device) {
  if (!current()) return kInvalidContext;
  return *device = current()->ordinal, kOk;
}
int cuCtxGetStreamPriorityRange(int* lowest, int* highest) { return *lowest = 0, *highest = -5, kOk; }
int cuCtxEnablePeerAccess(Device*, unsigned) { return kOk; }

int cuPointerGetAttribute(void* data, int attribute, std::uint64_t) {
  constexpr int kMemoryType = 2, kOrdinal = 9;
  const int value = attribute == kMemoryType ? 2 : current() ? current()->ordinal : 0;
  if (attribute != kMemoryType && attribute != kOrdinal) return kNotSupported;
  std::memcpy(data, &value, sizeof value);
  return kOk;
}
int cuPointerGetAttributes(unsigned, int*, void**, std::uint64_t) { return kNotSupported; }
int cuFuncSetAttribute(void*, int, int) { return arranged("cuFuncSetAttribute"); }
int cuFuncLoad(void*) {
  if (spoils_a_capture()) return kCaptureUnsupported;
  return arranged("cuFuncLoad");
}

}  // extern "C"

}  // namespace gpu_host
