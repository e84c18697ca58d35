// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/code.h"

#include <string_view>

#include "base/mix.h"
#include "device/gpu/code_cache.h"
#include "device/gpu/compiler.h"
#include "device/gpu/kernel_files.h"

namespace lanecast::gpu {
namespace {

std::string digest_of_source() {
  std::uint64_t a = 0, b = 1;
  for (const SourceFile& file : kernel_files())
    for (const std::string_view text : {std::string_view(file.name), std::string_view(file.text)})
      a = mix(a, text), b = mix(b, text);
  return std::to_string(a) + " " + std::to_string(b);
}

GpuVendor vendor_of(const std::string& target) {
  return target.starts_with("gfx") ? GpuVendor::amd : GpuVendor::nvidia;
}

Compiler compiler_for(const std::string& target, const CodePlaces& places) {
  return Compiler::open(vendor_of(target), places.library_folders);
}

std::string key_of(const KernelModule& module, const std::string& target, const Compiler& compiler) {
  return recipe(module, target) + "\ncompiler " + compiler.version();
}

}  // namespace

std::string recipe(const KernelModule& module, const std::string& target) {
  return "source " + digest_of_source() + "\nmain " + std::string(module.main) + "\noptions " +
         compiler_options(vendor_of(target), module) + "\narchitecture " + target;
}

std::string machine_code(const KernelModule& module, const std::string& target, const CodePlaces& places) {
  const Compiler compiler = compiler_for(target, places);
  return CodeCache(places.cache_folder).get(key_of(module, target, compiler), [&] {
    return compiler.compile(module, target);
  });
}

bool is_cached(const KernelModule& module, const std::string& target, const CodePlaces& places) {
  const std::string key = key_of(module, target, compiler_for(target, places));
  return CodeCache(places.cache_folder).find(key).has_value();
}

}  // namespace lanecast::gpu
