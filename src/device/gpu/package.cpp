// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/package.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <compare>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/own_folders.h"
#include "base/whole_file.h"
#include "device/gpu/code.h"
#include "device/gpu/code_file.h"

namespace lanecast::gpu {
namespace {

namespace fs = std::filesystem;

struct PackageTarget {
  bool ptx = false;
  int architecture = 0;  // 90: compute capability 9.0

  auto operator<=>(const PackageTarget&) const = default;
  std::string name() const { return (ptx ? "compute_" : "sm_") + std::to_string(architecture); }
  int generation() const { return architecture / 10; }
};

std::optional<PackageTarget> target_of(std::string_view name) {
  PackageTarget target;
  const std::string_view prefix = name.starts_with("compute_") ? "compute_" : "sm_";
  if (!name.starts_with(prefix)) return {};
  target.ptx = prefix != "sm_";
  name.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), target.architecture);
  if (error != std::errc{} || end != name.data() + name.size()) return {};
  return target;
}

std::vector<PackageTarget> targets_in(const fs::path& folder) {
  std::vector<PackageTarget> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (const auto target = target_of(entry.path().filename().string())) found.push_back(*target);
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> names_of(const std::vector<PackageTarget>& targets) {
  std::vector<std::string> names(targets.size());
  std::ranges::transform(targets, names.begin(), &PackageTarget::name);
  return names;
}

/// May code for this target run there? Machine code does within a generation, PTX on whatever comes later.
bool serves(const PackageTarget& target, const PackageTarget& device) {
  return target.architecture <= device.architecture && (target.ptx || target.generation() == device.generation());
}

}  // namespace

KernelPackage KernelPackage::own() {
  if (const char* const named = std::getenv("LANECAST_KERNEL_FOLDER"); named != nullptr && *named != '\0')
    return KernelPackage(named);
  std::vector<fs::path> folders = own_folders();
  for (fs::path& folder : folders) folder /= "lanecast-kernels";
  std::error_code none;
  const auto there = std::ranges::find_if(folders, [&](const fs::path& folder) { return fs::exists(folder, none); });
  if (there != folders.end()) return KernelPackage(*there);
  return KernelPackage(folders.empty() ? fs::path() : folders.front());
}

std::vector<std::string> KernelPackage::targets() const { return names_of(targets_in(folder_)); }

std::vector<std::string> KernelPackage::targets_for(const std::string& architecture) const {
  const auto device = target_of(architecture);
  if (!device) return {};  // AMD's
  std::vector<PackageTarget> found = targets_in(folder_);
  std::erase_if(found, [&](const PackageTarget& target) { return !serves(target, *device); });
  std::ranges::sort(found, [](const PackageTarget& a, const PackageTarget& b) {
    return a.ptx != b.ptx ? b.ptx : a.architecture > b.architecture;
  });
  return names_of(found);
}

std::string KernelPackage::read(const KernelModule& module, const std::string& target) const {
  const fs::path path = file(module, target);
  std::ifstream stream(path, std::ios::binary);
  if (!stream.is_open()) throw UsageError(path.string() + " cannot be read: " + std::strerror(errno));
  // As a whole: character by character some MB take 8 ms of a first communicator's time.
  std::error_code error;  // of what is no file
  const std::uintmax_t bytes = fs::file_size(path, error);
  std::string content(error ? 0 : bytes, '\0');
  stream.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (auto code = code_in(content, recipe(module, target))) return *std::move(code);
  throw UsageError(path.string() + " is spoilt, or not of this version of Lanecast");
}

void KernelPackage::write(const KernelModule& module, const std::string& target, std::string_view code) const {
  const fs::path path = file(module, target);
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  constexpr mode_t kForAll = 0666;
  if (const int number = write_whole(path, code_file(recipe(module, target), code), kForAll); number != 0)
    throw UsageError(path.string() + " cannot be written: " + std::strerror(number));
}

}  // namespace lanecast::gpu
