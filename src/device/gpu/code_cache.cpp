// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/code_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/mix.h"
#include "base/running_time.h"
#include "base/trust.h"
#include "base/user_cache.h"
#include "base/whole_file.h"
#include "device/gpu/code_file.h"

namespace lanecast::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{300};  // NVRTC takes tens of them, on a loaded machine a hundred

std::string name_of(const std::string& key) { return in_hex(mix(0, key)) + in_hex(mix(1, key)); }

std::array<fs::path, 2> places_of(const std::string& folder) { return {folder, temporary_cache("kernels")}; }

std::optional<std::string> code_at(const fs::path& path, const std::string& key) {
  try {
    const std::optional<std::string> content = trusted_text(path);
    return content ? code_in(*content, key) : std::nullopt;
  } catch (const UsageError&) {
    return {};  // as where there is none
  }
}

/// Held while the file is open. No file: another process is still at it when the patience ends, or there are no locks
/// here; then each makes its own.
FileDescriptor lock(const fs::path& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  Countdown left(kPatience);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || left.over()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return file;
}

bool can_keep(const fs::path& folder) {
  try {
    make_private(folder);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

std::optional<std::string> CodeCache::find(const std::string& key) const {
  if (folder_.empty()) return {};
  for (const fs::path& place : places_of(folder_))  // also one that cannot be written to, as of an image
    if (auto code = code_at(place / name_of(key), key)) return code;
  return {};
}

std::string CodeCache::get(const std::string& key, const std::function<std::string()>& make) const {
  if (folder_.empty()) return make();
  if (auto code = find(key)) return *std::move(code);
  const std::string name = name_of(key);
  const std::array<fs::path, 2> places = places_of(folder_);
  const auto keeps = [&](const fs::path& place, const std::string& code) {
    return can_keep(place) && write_whole(place / name, code_file(key, code), S_IRUSR | S_IWUSR) == 0;
  };
  const auto* place = std::ranges::find_if(places, can_keep);
  const FileDescriptor locked = place == places.end() ? FileDescriptor() : lock(*place / (name + ".lock"));
  if (place != places.end())
    if (auto code = code_at(*place / name, key)) return *code;
  std::string code = make();
  while (place != places.end() && !keeps(*place, code)) ++place;  // a disk may be full, or a user's share of it
  return code;
}

}  // namespace lanecast::gpu
