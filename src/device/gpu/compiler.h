// SPDX-License-Identifier: Apache-2.0
// A vendor's run-time compiler, NVRTC or hipRTC, found and opened when the program runs. HIP has NVRTC's calls under
// names of its own.
#pragma once

#include <string>
#include <vector>

#include "base/shared_library.h"
#include "device/gpu/driver.h"
#include "device/gpu/modules.h"

namespace lanecast::gpu {

/// What code of a module depends on beside the source, the compiler's version and the target.
std::string compiler_options(GpuVendor vendor, const KernelModule& module);

class Compiler {
 public:
  /// folders: looked in before the loader's path. Throws UsageError that says what is missing and what to do.
  static Compiler open(GpuVendor vendor, const std::vector<std::string>& folders);

  std::string version() const;  // "NVRTC 13.0", "hipRTC 9.0"
  const std::string& path() const { return library_.path(); }

  /// Code of a module for this target: machine code for devices of this architecture ("sm_90", "gfx90a"), or PTX
  /// ("compute_100"). Throws UsageError for one that this compiler or the source does not know, InternalError with the
  /// compiler's log for a source that is wrong.
  std::string compile(const KernelModule& module, const std::string& target) const;

 private:
  using Program = struct _nvrtcProgram*;

  Compiler(GpuVendor vendor, SharedLibrary library) : vendor_(vendor), library_(std::move(library)) {}

  SharedLibrary::Symbol call(const char* nvrtc, const char* hiprtc) const {
    return library_.required(vendor_ == GpuVendor::amd ? hiprtc : nvrtc);
  }
  void check(int result, const char* call) const;
  void require_known(const std::string& target) const;
  std::string log(Program program) const;
  std::string ptx(Program program) const;

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
