// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/kernels.h"

#include <mutex>
#include <utility>

#include "base/error.h"
#include "device/gpu/beside_captures.h"
#include "device/gpu/machine_code.h"

namespace lanecast::gpu {
namespace {

Owned<Module> load(std::shared_ptr<Device> device, const std::string& cubin) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  const BesideCaptures beside(driver);
  Module module = nullptr;
  driver.check(driver.cuModuleLoadData(&module, cubin.data()), "cuModuleLoadData");
  return {std::move(device), module, driver.cuModuleUnload};
}

}  // namespace

std::shared_ptr<const Kernels> Kernels::on(const std::shared_ptr<Device>& device, const std::string& cubin) {
  using Loaded = std::map<std::pair<int, std::string>, std::shared_ptr<const Kernels>>;
  static std::mutex mutex;
  static auto& all = *new Loaded;  // never destroyed: when a process ends, the driver may go first
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Kernels>& loaded = all[{device->ordinal(), cubin}];
  if (!loaded) loaded = std::make_shared<const Kernels>(device, cubin);
  return loaded;
}

Kernels::Kernels(std::shared_ptr<Device> device, const std::string& cubin) : module_(load(std::move(device), cubin)) {
  const Device::Current current(module_.device());
  const Driver& driver = module_.device().driver();
  const BesideCaptures beside(driver);
  for (const std::string& name : kernel_names(cubin)) {
    Function function = nullptr;
    driver.check(driver.cuModuleGetFunction(&function, module_.get(), name.c_str()), "cuModuleGetFunction");
    // Where this call is missing, the one above has loaded it already.
    if (driver.cuFuncLoad) driver.check(driver.cuFuncLoad(function), "cuFuncLoad");
    functions_.emplace(name, function);
  }
}

Function Kernels::get(std::string_view name) const {
  const auto found = functions_.find(name);
  if (found == functions_.end()) throw InternalError("there is no kernel " + std::string(name));
  return found->second;
}

}  // namespace lanecast::gpu
