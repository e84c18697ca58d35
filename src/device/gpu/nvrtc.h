// SPDX-License-Identifier: Apache-2.0
// NVRTC, NVIDIA's run-time compiler, found and opened when the program runs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "device/gpu/kernel_files.h"

namespace lanecast::gpu {

class Nvrtc {
 public:
  /// folders: looked in before the loader's path. Throws UsageError that says what is missing and what to do.
  static Nvrtc open(const std::vector<std::string>& folders);

  std::string version() const;  // "13.0"
  const std::string& path() const { return library_.path(); }

  /// What code depends on beside the source, the version and the capability.
  static std::string options();

  /// Machine code for devices of this capability: of the file named `main`, which includes others of `files`.
  /// Throws UsageError for a capability that this version does not know, InternalError with the compiler's log for a
  /// source that is wrong.
  std::string compile(std::span<const SourceFile> files, std::string_view main, int capability) const;

  explicit Nvrtc(SharedLibrary library) : library_(std::move(library)) {}

 private:
  using Program = struct _nvrtcProgram*;

  void check(int result, const char* call) const;
  bool knows(int capability) const;
  std::string log(Program program) const;

  SharedLibrary library_;
  const char* (*nvrtcGetErrorString)(int) = library_.required("nvrtcGetErrorString");
  int (*nvrtcVersion)(int*, int*) = library_.required("nvrtcVersion");
  int (*nvrtcGetNumSupportedArchs)(int*) = library_.required("nvrtcGetNumSupportedArchs");
  int (*nvrtcGetSupportedArchs)(int*) = library_.required("nvrtcGetSupportedArchs");
  int (*nvrtcCreateProgram)(Program*, const char* source, const char* name, int headers, const char* const* texts,
                            const char* const* names) = library_.required("nvrtcCreateProgram");
  int (*nvrtcDestroyProgram)(Program*) = library_.required("nvrtcDestroyProgram");
  int (*nvrtcCompileProgram)(Program, int options, const char* const*) = library_.required("nvrtcCompileProgram");
  int (*nvrtcGetCUBINSize)(Program, std::size_t*) = library_.required("nvrtcGetCUBINSize");
  int (*nvrtcGetCUBIN)(Program, char*) = library_.required("nvrtcGetCUBIN");
  int (*nvrtcGetProgramLogSize)(Program, std::size_t*) = library_.required("nvrtcGetProgramLogSize");
  int (*nvrtcGetProgramLog)(Program, char*) = library_.required("nvrtcGetProgramLog");
};

}  // namespace lanecast::gpu
