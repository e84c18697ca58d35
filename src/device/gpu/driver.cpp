// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/driver.h"

#include "base/error.h"

namespace lanecast::gpu {
namespace {

constexpr std::array kNames{"libcuda.so.1"};

/// Of a machine on which no call can succeed, whatever this library does: the user's to mend.
bool is_about_the_machine(int result) {
  constexpr std::array kResults{34 /* STUB_LIBRARY */, 100 /* NO_DEVICE */, 101 /* INVALID_DEVICE */,
                                803 /* SYSTEM_DRIVER_MISMATCH */, 804 /* COMPAT_NOT_SUPPORTED_ON_DEVICE */};
  for (const int known : kResults)
    if (result == known) return true;
  return false;
}

}  // namespace

std::shared_ptr<const Driver> Driver::open() {
  auto driver = std::make_shared<const Driver>(SharedLibrary::open({
      .what = "NVIDIA driver",
      .variable = "LANECAST_CUDA_LIBRARY",
      .names = kNames,
      .folders = {},
      .vendor_folders = {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"},
      .advice = "Install NVIDIA's driver, give the container access to the GPUs (docker run --gpus all)",
  }));
  driver->check(driver->cuInit(0), "cuInit");
  return driver;
}

void Driver::check(int result, const char* call) const {
  if (result == kSuccess) return;
  const char* name = nullptr;
  const char* meaning = nullptr;
  std::string text = std::string(call) + ": ";
  text += cuGetErrorName(result, &name) == kSuccess && name != nullptr ? name : "error " + std::to_string(result);
  if (cuGetErrorString(result, &meaning) == kSuccess && meaning != nullptr) text += std::string(": ") + meaning;
  if (is_about_the_machine(result)) throw UsageError(text + " (" + path() + ")");
  throw TransportError(text);
}

int Driver::version() const {
  int version = 0;
  check(cuDriverGetVersion(&version), "cuDriverGetVersion");
  return version;
}

}  // namespace lanecast::gpu
