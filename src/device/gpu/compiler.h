// SPDX-License-Identifier: Apache-2.0
// A vendor's run-time compiler, NVRTC or hipRTC, found and opened when the program runs. HIP has NVRTC's calls under
// names of its own.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "device/gpu/driver.h"
#include "device/gpu/kernel_files.h"

namespace lanecast::gpu {

class Compiler {
 public:
  /// folders: looked in before the loader's path. Throws UsageError that says what is missing and what to do.
  static Compiler open(GpuVendor vendor, const std::vector<std::string>& folders);

  std::string version() const;  // "NVRTC 13.0", "hipRTC 9.0"
  const std::string& path() const { return library_.path(); }

  /// What code depends on beside the source, the version and the architecture.
  std::string options() const;

  /// Machine code for devices of this architecture ("sm_90", "gfx90a"): of the file named `main`, which includes others
  /// of `files`. Throws UsageError for an architecture that this compiler or the source does not know, InternalError
  /// with the compiler's log for a source that is wrong.
  std::string compile(std::span<const SourceFile> files, std::string_view main, const std::string& architecture) const;

 private:
  using Program = struct _nvrtcProgram*;

  Compiler(GpuVendor vendor, SharedLibrary library) : vendor_(vendor), library_(std::move(library)) {}

  SharedLibrary::Symbol call(const char* nvrtc, const char* hiprtc) const {
    return library_.required(vendor_ == GpuVendor::amd ? hiprtc : nvrtc);
  }
  void check(int result, const char* call) const;
  void require_known(const std::string& architecture) const;
  std::string log(Program program) const;

  GpuVendor vendor_;
  SharedLibrary library_;
  const char* (*nvrtcGetErrorString)(int) = call("nvrtcGetErrorString", "hiprtcGetErrorString");
  int (*nvrtcVersion)(int*, int*) = call("nvrtcVersion", "hiprtcVersion");
  int (*nvrtcCreateProgram)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                            const char* const* names) = call("nvrtcCreateProgram", "hiprtcCreateProgram");
  int (*nvrtcDestroyProgram)(Program*) = call("nvrtcDestroyProgram", "hiprtcDestroyProgram");
  int (*nvrtcCompileProgram)(Program, int options, const char* const*) = call("nvrtcCompileProgram",
                                                                              "hiprtcCompileProgram");
  int (*nvrtcGetCUBINSize)(Program, std::size_t*) = call("nvrtcGetCUBINSize", "hiprtcGetCodeSize");
  int (*nvrtcGetCUBIN)(Program, char*) = call("nvrtcGetCUBIN", "hiprtcGetCode");
  int (*nvrtcGetProgramLogSize)(Program, std::size_t*) = call("nvrtcGetProgramLogSize", "hiprtcGetProgramLogSize");
  int (*nvrtcGetProgramLog)(Program, char*) = call("nvrtcGetProgramLog", "hiprtcGetProgramLog");
};

}  // namespace lanecast::gpu
