// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/code_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/mix.h"
#include "base/running_time.h"
#include "base/trust.h"
#include "base/user_cache.h"
#include "base/whole_file.h"

namespace lanecast::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kPatience{300};  // NVRTC takes tens of them, on a loaded machine a hundred

std::string in_hex(std::uint64_t number) {
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(number));
  return digits.data();
}

/// What comes before the code in a file: a file of another key cannot be taken for this one, nor one that is cut off.
std::string header_of(const std::string& key, std::string_view code) {
  return "lanecast machine code\n" + key + "\nchecksum " + in_hex(mix(0, code)) + "\n\n";
}

std::optional<std::string> code_in(const fs::path& path, const std::string& key) {
  std::optional<std::string> content;
  try {
    content = trusted_text(path);
  } catch (const UsageError&) {
    return {};  // as where there is none
  }
  const std::size_t header_bytes = header_of(key, "").size();
  if (!content || content->size() <= header_bytes) return {};
  std::string code = content->substr(header_bytes);
  if (!content->starts_with(header_of(key, code))) return {};
  return code;
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

std::string CodeCache::get(const std::string& key, const std::function<std::string()>& make) const {
  if (folder_.empty()) return make();
  const std::string name = in_hex(mix(0, key)) + in_hex(mix(1, key));
  const std::array<fs::path, 2> places{folder_, temporary_cache("kernels")};
  for (const fs::path& place : places)  // also one that cannot be written to, as of an image
    if (auto code = code_in(place / name, key)) return *code;
  const auto keeps = [&](const fs::path& place, const std::string& code) {
    return can_keep(place) && write_whole(place / name, header_of(key, code) + code, S_IRUSR | S_IWUSR) == 0;
  };
  const auto* place = std::ranges::find_if(places, can_keep);
  const FileDescriptor locked = place == places.end() ? FileDescriptor() : lock(*place / (name + ".lock"));
  if (place != places.end())
    if (auto code = code_in(*place / name, key)) return *code;
  std::string code = make();
  while (place != places.end() && !keeps(*place, code)) ++place;  // a disk may be full, or a user's share of it
  return code;
}

}  // namespace lanecast::gpu
