// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "device/gpu/kernel_files.h"
#include "device/gpu/toolkit.h"

namespace lanecast::gpu {
namespace {

constexpr std::array kNvrtcNames{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
// Up to ROCm 6 HIP's own library has it, too.
constexpr std::array kHiprtcNames{"libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so.6", "libamdhip64.so.5"};

// Nothing is contracted to fma, and AMD's compiler is held to IEEE's quotients and small numbers: results have the same
// bits as those of the CPU's kernels.
constexpr std::array kNvrtcOptions{"-std=c++17", "--device-as-default-execution-space", "--fmad=false"};
constexpr std::array kHiprtcOptions{"-std=c++17", "-O3", "-ffp-contract=off", "-fno-gpu-flush-denormals-to-zero",
                                    "-fhip-fp32-correctly-rounded-divide-sqrt"};

constexpr std::string_view kPtx = "compute_", kBinary = "sm_";

// Those of amd.cuh.
constexpr std::array kAmdArchitectures{"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"};

std::span<const char* const> options_of(GpuVendor vendor) {
  if (vendor == GpuVendor::amd) return kHiprtcOptions;
  return kNvrtcOptions;
}

std::vector<std::string> words_for(GpuVendor vendor, const KernelModule& module) {
  const auto options = options_of(vendor);
  std::vector<std::string> words(options.begin(), options.end());
  if (!module.define.empty()) words.push_back("-D" + std::string(module.define));
  return words;
}

LibrarySearch search_for(GpuVendor vendor, const std::vector<std::string>& folders) {
  if (vendor == GpuVendor::amd)
    return {
        .what = "hipRTC, AMD's run-time compiler",
        .variable = "LANECAST_HIPRTC_LIBRARY",
        .names = kHiprtcNames,
        .folders = {},
        .vendor_folders = toolkit_folders(vendor),
        .advice = "Install ROCm, load your site's module",
    };
  return {
      .what = "NVRTC, NVIDIA's run-time compiler",
      .variable = "LANECAST_NVRTC_LIBRARY",
      .names = kNvrtcNames,
      .folders = folders,
      .vendor_folders = toolkit_folders(vendor),
      .advice =
          "Install one (pip install nvidia-cuda-nvrtc; PyTorch for CUDA brings it along), load your site's CUDA "
          "module",
  };
}

}  // namespace

std::string compiler_options(GpuVendor vendor, const KernelModule& module) {
  std::string text;
  for (const std::string& word : words_for(vendor, module)) text += (text.empty() ? "" : " ") + word;
  return text;
}

Compiler Compiler::open(GpuVendor vendor, const std::vector<std::string>& folders) {
  Compiler compiler(vendor, SharedLibrary::open(search_for(vendor, folders)));
  if (vendor == GpuVendor::amd) return compiler;
  // It opens this one by its bare name when it compiles. In a wheel the loader finds it only if it is there already;
  // where it is missing, NVRTC itself will say so.
  const std::string version = compiler.version().substr(sizeof "NVRTC");
  const auto builtins = std::filesystem::path(compiler.path()).replace_filename("libnvrtc-builtins.so." + version);
  dlopen(builtins.c_str(), RTLD_LAZY | RTLD_LOCAL);
  return compiler;
}

std::string Compiler::version() const {
  int major = 0, minor = 0;
  check(nvrtcVersion(&major, &minor), "nvrtcVersion");
  return (vendor_ == GpuVendor::amd ? "hipRTC " : "NVRTC ") + std::to_string(major) + "." + std::to_string(minor);
}

std::string Compiler::compile(const KernelModule& module, const std::string& target) const {
  require_known(target);
  const char* source = nullptr;
  std::vector<const char*> texts, names;
  for (const SourceFile& file : kernel_files()) {
    if (file.name == module.main) source = file.text;
    texts.push_back(file.text);
    names.push_back(file.name);
  }
  const std::string main(module.main);
  if (source == nullptr) throw InternalError("no file " + main + " among the kernels' source");

  Program program = nullptr;
  check(nvrtcCreateProgram(&program, source, main.c_str(), static_cast<int>(texts.size()), texts.data(), names.data()),
        "nvrtcCreateProgram");
  const auto destroy = [this](Program* p) { nvrtcDestroyProgram(p); };
  const std::unique_ptr<Program, decltype(destroy)> destroyed(&program, destroy);

  std::vector<std::string> words = words_for(vendor_, module);
  words.push_back("--gpu-architecture=" + target);
  std::vector<const char*> options(words.size());
  std::ranges::transform(words, options.begin(), &std::string::c_str);
  if (const int result = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data()); result != 0)
    throw InternalError(version() + ", " + path() + ", cannot compile " + main + " with " + words.back() + ": " +
                        nvrtcGetErrorString(result) + "\n" + log(program));
  if (target.starts_with(kPtx)) return ptx(program);
  std::size_t bytes = 0;
  check(nvrtcGetCUBINSize(program, &bytes), "nvrtcGetCUBINSize");
  std::string code(bytes, '\0');
  check(nvrtcGetCUBIN(program, code.data()), "nvrtcGetCUBIN");
  return code;
}

std::string Compiler::ptx(Program program) const {
  int (*const get_size)(Program, std::size_t*) = library_.required("nvrtcGetPTXSize");
  int (*const get)(Program, char*) = library_.required("nvrtcGetPTX");
  std::size_t bytes = 0;  // with the closing zero
  check(get_size(program, &bytes), "nvrtcGetPTXSize");
  std::string text(bytes, '\0');
  check(get(program, text.data()), "nvrtcGetPTX");
  text.resize(text.find('\0'));
  return text;
}

void Compiler::check(int result, const char* call) const {
  if (result != 0) throw InternalError(std::string(call) + ": " + nvrtcGetErrorString(result));
}

void Compiler::require_known(const std::string& target) const {
  if (vendor_ == GpuVendor::amd) {
    if (std::find(kAmdArchitectures.begin(), kAmdArchitectures.end(), target) == kAmdArchitectures.end())
      throw UsageError("of AMD's GPUs the kernels know gfx90a, gfx940 to gfx942 and gfx950, and not " + target);
    return;
  }
  int (*const count_known)(int*) = library_.required("nvrtcGetNumSupportedArchs");
  int (*const get_known)(int*) = library_.required("nvrtcGetSupportedArchs");
  int count = 0;
  check(count_known(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> known(static_cast<std::size_t>(count));
  check(get_known(known.data()), "nvrtcGetSupportedArchs");
  const bool found = std::any_of(known.begin(), known.end(), [&](int each) {
    const std::string number = std::to_string(each);
    return target == kBinary.data() + number || target == kPtx.data() + number;
  });
  if (!found)
    throw UsageError(version() + ", " + path() + ", does not know GPUs of architecture " + target +
                     "; install one of another CUDA (pip install nvidia-cuda-nvrtc), or set LANECAST_NVRTC_LIBRARY");
}

std::string Compiler::log(Program program) const {
  std::size_t bytes = 0;  // with the closing zero
  if (nvrtcGetProgramLogSize(program, &bytes) != 0 || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (nvrtcGetProgramLog(program, text.data()) != 0) return "";
  text.pop_back();
  return text;
}

}  // namespace lanecast::gpu
