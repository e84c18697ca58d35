// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/kernels.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "device/gpu/beside_captures.h"
#include "device/gpu/machine_code.h"
#include "device/gpu/package.h"

namespace lanecast::gpu {
namespace {

Owned<Module> load(std::shared_ptr<Device> device, const std::string& code) {
  const Device::Current current(*device);
  const Driver& driver = device->driver();
  const BesideCaptures beside(driver);
  Module module = nullptr;
  driver.check(driver.cuModuleLoadData(&module, code.data()), "cuModuleLoadData");
  return {std::move(device), module, driver.cuModuleUnload};
}

/// Null where none of the package's can be used: an older driver may not take machine code of a newer CUDA.
std::shared_ptr<const Kernels> packaged(const std::shared_ptr<Device>& device, const KernelModule& module) {
  const KernelPackage package = KernelPackage::own();
  for (const std::string& target : package.targets_for(device->architecture())) try {
      return std::make_shared<const Kernels>(device, package.read(module, target));
    } catch (const Error& error) {
      std::fprintf(stderr, "lanecast: the GPU kernels that came with this library for %s are left aside: %s\n",
                   target.c_str(), error.what());
    }
  return nullptr;
}

}  // namespace

std::shared_ptr<const Kernels> Kernels::on(const std::shared_ptr<Device>& device, const KernelModule& module,
                                           const CodePlaces& places) {
  using Loaded = std::map<std::pair<int, std::string_view>, std::shared_ptr<const Kernels>>;
  static std::mutex mutex;
  static auto& all = *new Loaded;  // never destroyed: when a process ends, the driver may go first
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Kernels>& loaded = all[{device->ordinal(), module.name}];
  if (!loaded) loaded = packaged(device, module);
  if (!loaded) loaded = std::make_shared<const Kernels>(device, machine_code(module, device->architecture(), places));
  return loaded;
}

Kernels::Kernels(std::shared_ptr<Device> device, const std::string& code) : module_(load(std::move(device), code)) {
  const Device::Current current(module_.device());
  const Driver& driver = module_.device().driver();
  const BesideCaptures beside(driver);
  for (const std::string& name : kernel_names(code)) {
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

std::string_view Kernels::name_of(Function function) const {
  const auto found = std::ranges::find(functions_, function, &decltype(functions_)::value_type::second);
  return found == functions_.end() ? std::string_view() : found->first;
}

}  // namespace lanecast::gpu
