// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "device/gpu/toolkit.h"

namespace lanecast::gpu {
namespace {

constexpr std::array kNames{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

// Nothing is contracted to fma: results have the same bits as those of the CPU's kernels.
constexpr std::array kOptions{"-std=c++17", "--device-as-default-execution-space", "--fmad=false"};

}  // namespace

Nvrtc Nvrtc::open(const std::vector<std::string>& folders) {
  Nvrtc nvrtc(SharedLibrary::open({
      .what = "NVRTC, NVIDIA's run-time compiler",
      .variable = "LANECAST_NVRTC_LIBRARY",
      .names = kNames,
      .folders = folders,
      .vendor_folders = toolkit_folders(),
      .advice = "Install one (pip install nvidia-cuda-nvrtc; PyTorch for CUDA brings it along), load your site's CUDA "
                "module",
  }));
  // It opens this one by its bare name when it compiles. In a wheel the loader finds it only if it is there already;
  // where it is missing, NVRTC itself will say so.
  const auto builtins = std::filesystem::path(nvrtc.path()).replace_filename("libnvrtc-builtins.so." + nvrtc.version());
  dlopen(builtins.c_str(), RTLD_LAZY | RTLD_LOCAL);
  return nvrtc;
}

std::string Nvrtc::version() const {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string Nvrtc::options() {
  std::string text;
  for (const char* option : kOptions) text += std::string(text.empty() ? "" : " ") + option;
  return text;
}

std::string Nvrtc::compile(std::span<const SourceFile> files, std::string_view main, int capability) const {
  if (!knows(capability))
    throw UsageError("NVRTC " + version() + ", " + path() + ", does not know GPUs of compute capability " +
                     std::to_string(capability / 10) + "." + std::to_string(capability % 10) +
                     "; install one of another CUDA (pip install nvidia-cuda-nvrtc), or set LANECAST_NVRTC_LIBRARY");
  const char* source = nullptr;
  std::vector<const char*> texts, names;
  for (const SourceFile& file : files) {
    if (file.name == main) source = file.text;
    texts.push_back(file.text);
    names.push_back(file.name);
  }
  if (source == nullptr) throw InternalError("no file " + std::string(main) + " among the kernels' source");

  Program program = nullptr;
  check(nvrtcCreateProgram(&program, source, std::string(main).c_str(), static_cast<int>(texts.size()), texts.data(),
                           names.data()),
        "nvrtcCreateProgram");
  const auto destroy = [this](Program* p) { nvrtcDestroyProgram(p); };
  const std::unique_ptr<Program, decltype(destroy)> destroyed(&program, destroy);

  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(capability);
  std::vector<const char*> options(kOptions.begin(), kOptions.end());
  options.push_back(architecture.c_str());
  if (const int result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data()); result != 0)
    throw InternalError("NVRTC " + version() + ", " + path() + ", cannot compile the kernels with " + architecture +
                        ": " + nvrtcGetErrorString(result) + "\n" + log(program));
  std::size_t bytes = 0;
  check(nvrtcGetCUBINSize(program, &bytes), "nvrtcGetCUBINSize");
  std::string code(bytes, '\0');
  check(nvrtcGetCUBIN(program, code.data()), "nvrtcGetCUBIN");
  return code;
}

void Nvrtc::check(int result, const char* call) const {
  if (result != 0) throw InternalError(std::string(call) + ": " + nvrtcGetErrorString(result));
}

bool Nvrtc::knows(int capability) const {
  int count = 0;
  check(nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<std::size_t>(count));
  check(nvrtcGetSupportedArchs(known.data()), "nvrtcGetSupportedArchs");
  return std::find(known.begin(), known.end(), capability) != known.end();
}

std::string Nvrtc::log(Program program) const {
  std::size_t bytes = 0;  // with the closing zero
  if (nvrtcGetProgramLogSize(program, &bytes) != 0 || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (nvrtcGetProgramLog(program, text.data()) != 0) return "";
  text.pop_back();
  return text;
}

}  // namespace lanecast::gpu
