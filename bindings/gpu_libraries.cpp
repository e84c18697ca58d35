// SPDX-License-Identifier: Apache-2.0
// What the GPUs need of a machine, and the machine code of their kernels: for `lanecast info` and for tests.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "bindings.h"
#include "device/gpu/code.h"
#include "device/gpu/code_cache.h"
#include "device/gpu/compiler.h"
#include "device/gpu/device.h"
#include "device/gpu/kernel_files.h"
#include "device/gpu/machine_code.h"
#include "device/gpu/nccl.h"
#include "device/gpu/package.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using Folders = std::vector<std::string>;

nb::bytes as_bytes(const std::string& code) { return nb::bytes(code.data(), code.size()); }
std::string as_string(const nb::bytes& code) { return {code.c_str(), code.size()}; }

nb::tuple gpu_driver() {
  const auto driver = gpu::Driver::open();
  return nb::make_tuple(driver->version(), driver->path());
}

nb::list gpus() {
  const auto driver = gpu::Driver::open();
  int count = 0;
  driver->check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  nb::list found;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const auto device = gpu::Device::open(ordinal);
    nb::dict facts;
    facts["name"] = device->name();
    facts["architecture"] = device->architecture();
    facts["multiprocessors"] = device->multiprocessors();
    facts["uuid"] = device->uuid();
    facts["pci_bus_id"] = device->pci_bus_id();
    found.append(facts);
  }
  return found;
}

nb::dict kernel_files() {
  nb::dict texts;
  for (const gpu::SourceFile& file : gpu::kernel_files()) texts[file.name] = file.text;
  return texts;
}

std::string machine_code(const std::string& target, const gpu::CodePlaces& places) {
  const WithoutGil others_may_run;
  return gpu::machine_code(gpu::kCollectiveKernels, target, places);
}

bool are_cached(const std::string& target, const gpu::CodePlaces& places) {
  return std::ranges::all_of(gpu::kernel_modules(),
                             [&](const auto& module) { return is_cached(module, target, places); });
}

nb::list packaged_kernels(const std::string& architecture) {
  const auto package = gpu::KernelPackage::own();
  nb::list found;
  for (const std::string& target : package.targets_for(architecture)) try {
      for (const gpu::KernelModule& module : gpu::kernel_modules()) package.read(module, target);
      found.append(nb::make_tuple(target, ""));
    } catch (const UsageError& error) {
      found.append(nb::make_tuple(target, error.what()));
    }
  return found;
}

}  // namespace

void bind_gpu_libraries(nb::module_& m) {
  m.def("gpu_driver", gpu_driver, "(\"CUDA 13.0\" or \"HIP 6.2\", path); UsageError where there is none.");
  m.def("gpus", gpus, "The GPUs that this process sees; UsageError without a driver.");
  m.def(
      "gpu_compiler",
      [](bool amd, const Folders& folders) {
        const auto compiler = gpu::Compiler::open(amd ? GpuVendor::amd : GpuVendor::nvidia, folders);
        return nb::make_tuple(compiler.version(), compiler.path());
      },
      "amd"_a, "folders"_a, "(\"NVRTC 13.0\", path), or of hipRTC; UsageError where there is none.");
  m.def(
      "nccl",
      [](const Folders& folders) {
        const auto found = gpu::find_nccl(folders);
        return nb::make_tuple(found.version, found.path);
      },
      "folders"_a, "(version, path); UsageError where there is none.");

  m.def("gpu_kernel_files", kernel_files, "The kernels' source: text by name.");
  m.def(
      "gpu_machine_code",
      [](const std::string& target, const Folders& folders, const std::string& cache_folder) {
        return as_bytes(machine_code(target, {folders, cache_folder}));
      },
      "target"_a, "library_folders"_a, "cache_folder"_a,
      "Machine code of the kernels, or their PTX; an empty folder keeps none.");
  m.def(
      "gpu_kernels_are_cached",
      [](const std::string& target, const Folders& folders, const std::string& cache_folder) {
        return are_cached(target, {folders, cache_folder});
      },
      "target"_a, "library_folders"_a, "cache_folder"_a, "UsageError where there is no compiler that could make them.");
  m.def(
      "gpu_kernel_package",
      [] {
        const auto package = gpu::KernelPackage::own();
        return nb::make_tuple(package.folder().string(), package.targets());
      },
      "(folder, targets) of the kernels that came with this library.");
  m.def("gpu_packaged_kernels", packaged_kernels, "architecture"_a,
        "Of those, what serves such a GPU, the best first: (target, why it is of no use, if so).");
  m.def(
      "gpu_package_kernels",
      [](const std::string& folder, const std::string& target, const nb::bytes& code) {
        gpu::KernelPackage(folder).write(gpu::kCollectiveKernels, target, as_string(code));
      },
      "folder"_a, "target"_a, "code"_a, "For tests: a package as the build makes it.");
  m.def("gpu_kernel_names", [](const nb::bytes& code) { return gpu::kernel_names(as_string(code)); }, "code"_a);
  m.def(
      "cached_code",
      [](const std::string& folder, const std::string& key, const nb::callable& make) {
        std::string code;
        {
          const WithoutGil others_may_run;
          code = gpu::CodeCache(folder).get(key, [&] {
            const WithGil held;
            return as_string(nb::cast<nb::bytes>(make()));
          });
        }
        return as_bytes(code);
      },
      "folder"_a, "key"_a, "make"_a, "For tests: the cache of machine code with another compiler.");
}

}  // namespace lanecast
