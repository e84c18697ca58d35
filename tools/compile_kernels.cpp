// SPDX-License-Identifier: Apache-2.0
// Run by the build: code of all modules of the kernels for one target, into a package, and beside it TARGET.stamp,
// which is there only if all of it is. Where no compiler knows the target, it says so and leaves none, since a program
// then compiles its kernels itself.
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/whole_file.h"
#include "device/gpu/code.h"
#include "device/gpu/package.h"

namespace {

using namespace lanecast;

void compile(const std::filesystem::path& folder, const char* cache, const char* target) {
  const gpu::KernelPackage package(folder);
  const std::filesystem::path stamp = folder / (std::string(target) + ".stamp");
  std::filesystem::remove(stamp);
  std::filesystem::remove_all(folder / target);  // with what is no module any more
  for (const gpu::KernelModule& module : gpu::kernel_modules())
    package.write(module, target, gpu::machine_code(module, target, {{}, cache}));
  if (const int error = write_whole(stamp, "", 0666); error != 0)
    throw InternalError(stamp.string() + " cannot be written: " + std::strerror(error));
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
