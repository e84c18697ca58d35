// SPDX-License-Identifier: Apache-2.0
// Run by the build: code of all modules of the kernels for one target, into a package. Where no compiler knows the
// target, it says so and leaves none, since a program then compiles its kernels itself.
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>

#include "base/error.h"
#include "device/gpu/code.h"
#include "device/gpu/package.h"

namespace {

using namespace lanecast;

void compile(const std::filesystem::path& folder, const char* cache, const char* target) {
  const gpu::KernelPackage package(folder);
  std::filesystem::remove_all(folder / target);  // with what is no module any more
  for (const gpu::KernelModule& module : gpu::kernel_modules())
    package.write(module, target, gpu::machine_code(module, target, {{}, cache}));
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return std::fprintf(stderr, "usage: compile_kernels PACKAGE CACHE TARGET\n"), 2;
  const char* const target = words[3];
  try {
    compile(words[1], words[2], target);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "lanecast: no GPU kernels for %s in this package: %s\n", target, error.what());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lanecast: GPU kernels for %s: %s\n", target, error.what());
    return 1;
  }
}
