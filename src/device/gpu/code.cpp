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

}  // namespace

std::string machine_code(const std::string& architecture, const std::vector<std::string>& library_folders,
                         const std::string& cache_folder) {
  const GpuVendor vendor = architecture.starts_with("gfx") ? GpuVendor::amd : GpuVendor::nvidia;
  const Compiler compiler = Compiler::open(vendor, library_folders);
  const std::string key = "source " + digest_of_source() + "\noptions " + compiler.options() + "\ncompiler " +
                          compiler.version() + "\narchitecture " + architecture;
  return CodeCache(cache_folder).get(key, [&] { return compiler.compile(kernel_files(), kMainFile, architecture); });
}

}  // namespace lanecast::gpu
