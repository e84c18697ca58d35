// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "device/gpu/hip.h"
#include "device/gpu/toolkit.h"

namespace lanecast::gpu {
namespace {

constexpr const char* kCudaVariable = "LANECAST_CUDA_LIBRARY";
constexpr const char* kHipVariable = "LANECAST_HIP_LIBRARY";
constexpr std::array kCudaNames{"libcuda.so.1"};
constexpr std::array kHipNames{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};

/// Of a machine on which no call can succeed, whatever this library does: the user's to mend.
bool is_about_the_machine(int result) {
  constexpr std::array kResults{34 /* STUB_LIBRARY */, 100 /* NO_DEVICE */, 101 /* INVALID_DEVICE */,
                                803 /* SYSTEM_DRIVER_MISMATCH */, 804 /* COMPAT_NOT_SUPPORTED_ON_DEVICE */};
  for (const int known : kResults)
    if (result == known) return true;
  return false;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// The one that a framework has brought into this process, else any: two of them would not know of each other.
std::span<const char* const> hip_names() {
  for (const char* const& name : kHipNames) {
    void* loaded = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    if (loaded == nullptr) continue;
    dlclose(loaded);
    return {&name, 1};
  }
  return kHipNames;
}

std::shared_ptr<const Driver> started(GpuVendor vendor, const LibrarySearch& search) {
  auto driver = std::make_shared<const Driver>(vendor, SharedLibrary::open(search));
  driver->check(driver->cuInit(0), "cuInit");
  return driver;
}

std::shared_ptr<const Driver> open_cuda() {
  return started(GpuVendor::nvidia,
                 {
                     .what = "NVIDIA driver",
                     .variable = kCudaVariable,
                     .names = kCudaNames,
                     .folders = {},
                     .vendor_folders = {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"},
                     .advice = "Install NVIDIA's driver, give the container access to the GPUs (docker run --gpus all)",
                 });
}

std::shared_ptr<const Driver> open_hip() {
  return started(GpuVendor::amd, {
                                     .what = "HIP, AMD's runtime",
                                     .variable = kHipVariable,
                                     .names = hip_names(),
                                     .folders = {},
                                     .vendor_folders = toolkit_folders(GpuVendor::amd),
                                     .advice = "Install ROCm, load your site's module",
                                 });
}

}  // namespace

std::shared_ptr<const Driver> Driver::open() {
  if (is_set(kHipVariable)) return open_hip();
  if (is_set(kCudaVariable)) return open_cuda();
  try {
    return open_cuda();
  } catch (const UsageError& no_cuda) {
    try {
      return open_hip();
    } catch (const UsageError& no_hip) {
      throw UsageError(std::string(no_cuda.what()) + "\nand " + no_hip.what());
    }
  }
}

void Driver::check(int result, const char* call) const {
  if (result == kSuccess) return;
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (vendor_ == GpuVendor::amd) {
    name = hipGetErrorName(result);
    meaning = hipGetErrorString(result);
    if (meaning != nullptr && name != nullptr && std::string_view(meaning) == name) meaning = nullptr;
  } else {
    if (cuGetErrorName(result, &name) != kSuccess) name = nullptr;
    if (cuGetErrorString(result, &meaning) != kSuccess) meaning = nullptr;
  }
  std::string text = std::string(call) + (vendor_ == GpuVendor::amd ? ", as HIP has it: " : ": ");
  text += name != nullptr ? name : "error " + std::to_string(result);
  if (meaning != nullptr) text += std::string(": ") + meaning;
  if (is_about_the_machine(result)) throw UsageError(text + " (" + path() + ")");
  throw TransportError(text);
}

std::string Driver::version() const {
  int version = 0;
  check(cuDriverGetVersion(&version), "cuDriverGetVersion");
  const bool amd = vendor_ == GpuVendor::amd;  // 60243483 is 6.2, 13000 is 13.0
  const int major = amd ? version / 10000000 : version / 1000;
  const int minor = amd ? version / 100000 % 100 : version % 1000 / 10;
  return (amd ? "HIP " : "CUDA ") + std::to_string(major) + "." + std::to_string(minor);
}

int Driver::attribute(int* value, Attribute which, int device) const {
  static constexpr std::array kCuda{10, 16, 75, 76, 118, 97, 132, 120};
  const auto k = static_cast<std::size_t>(which);
  if (vendor_ == GpuVendor::nvidia) return cuDeviceGetAttribute(value, kCuda[k], device);
  return k < kHipAttributes.size() ? cuDeviceGetAttribute(value, kHipAttributes[k], device) : kNotSupported;
}

std::string Driver::architecture(int device) const {
  if (vendor_ == GpuVendor::amd) return hip_architecture(library_, device);
  int major = 0, minor = 0;
  check(attribute(&major, Attribute::capability_major, device), "cuDeviceGetAttribute");
  check(attribute(&minor, Attribute::capability_minor, device), "cuDeviceGetAttribute");
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

int Driver::current_device(int* device) const {
  if (vendor_ == GpuVendor::amd) return hipGetDevice(device);
  Context context = nullptr;
  *device = 0;  // as CUDA's runtime has it where there is none yet
  if (const int result = cuCtxGetCurrent(&context); result != kSuccess || context == nullptr) return result;
  return cuCtxGetDevice(device);
}

bool Driver::has_entered(Context context) const {
  // HIP's threads begin with device 0, entered or not.
  Context current = nullptr;
  return vendor_ == GpuVendor::nvidia && cuCtxGetCurrent(&current) == kSuccess && current == context;
}

int Driver::enter(Context context, int device, int* before) const {
  if (vendor_ == GpuVendor::nvidia) return cuCtxPushCurrent(context);
  // HIP has contexts that can be pushed, too, but what pops them leaves the device as it is.
  if (const int result = hipGetDevice(before); result != kSuccess) return result;
  return hipSetDevice(device);
}

void Driver::leave(int before) const {
  Context popped = nullptr;
  if (vendor_ == GpuVendor::amd)
    hipSetDevice(before);
  else
    cuCtxPopCurrent(&popped);
}

int Driver::allocate(Address* address, std::size_t bytes) const {
  if (vendor_ == GpuVendor::nvidia) return cuMemAlloc(address, bytes);
  void* memory = nullptr;
  const int result = hipExtMallocWithFlags(&memory, bytes, kHipFineGrained);
  *address = reinterpret_cast<Address>(memory);
  return result;
}

int Driver::pin(void** host, std::size_t bytes) const {
  const unsigned coherent = vendor_ == GpuVendor::amd ? kHipCoherent : 0;  // as CUDA's always is
  return cuMemHostAlloc(host, bytes, kMemHostAllocPortable | kMemHostAllocDeviceMap | coherent);
}

int Driver::open_peer(Address* address, const IpcHandle& handle) const {
  constexpr int kInvalidValue = 1;
  const int result = cuIpcOpenMemHandle(address, handle, kIpcLazyEnablePeerAccess);
  // HIP's flag of this name has another value in its older versions, which take no other.
  if (vendor_ == GpuVendor::nvidia || result != kInvalidValue) return result;
  return cuIpcOpenMemHandle(address, handle, kHipOldLazyEnablePeerAccess);
}

std::uint64_t Driver::number_of(Stream stream) const {
  constexpr std::uintptr_t kPerThread = 2;  // CU_STREAM_PER_THREAD: one handle for streams of all threads
  if (reinterpret_cast<std::uintptr_t>(stream) == kPerThread) return 0;
  unsigned long long number = 0;
  return cuStreamGetId && cuStreamGetId(stream, &number) == kSuccess ? number + 1 : 0;  // a number may be 0
}

int Driver::copy(Address to, Address from, std::size_t bytes, Stream stream) const {
  if (vendor_ == GpuVendor::nvidia) return cuMemcpyAsync(to, from, bytes, stream);
  return hipMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, kHipAnyDirection,
                        stream);
}

}  // namespace lanecast::gpu
