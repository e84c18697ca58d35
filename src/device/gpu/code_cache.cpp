// SPDX-License-Identifier: Apache-2.0
#include "device/gpu/code_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/file_descriptor.h"
#include "base/mix.h"
#include "base/running_time.h"

namespace lanecast::gpu {
namespace {

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

/// Nobody but this user can have written it.
bool is_ours(const FileDescriptor& file) {
  struct stat status{};
  return fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::string> content_of(const FileDescriptor& file) {
  std::string content;
  std::array<char, 65536> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
  for (;;) {
    const ssize_t bytes = ::read(file.get(), piece.data(), piece.size());
    if (bytes == 0) return content;
    if (bytes > 0) content.append(piece.data(), static_cast<std::size_t>(bytes));
    if (bytes < 0 && errno != EINTR) return {};
  }
}

bool write_all(const FileDescriptor& file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t bytes = ::write(file.get(), content.data(), content.size());
    if (bytes < 0 && errno != EINTR) return false;
    if (bytes > 0) content.remove_prefix(static_cast<std::size_t>(bytes));
  }
  return true;
}

/// Held while the file is open. No file: another process is still at it when the patience ends, or there are no locks
/// here; then each makes its own.
FileDescriptor lock(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  Countdown left(kPatience);
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if ((errno != EWOULDBLOCK && errno != EINTR) || left.over()) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return file;
}

}  // namespace

std::string CodeCache::get(const std::string& key, const std::function<std::string()>& make) const {
  if (folder_.empty()) return make();
  std::error_code ignored;  // a folder that cannot be made cannot be written to either
  std::filesystem::create_directories(folder_, ignored);
  const std::string path = folder_ + "/" + in_hex(mix(0, key)) + in_hex(mix(1, key));
  if (auto code = read(path, key)) return *code;
  const FileDescriptor locked = lock(path + ".lock");
  if (auto code = read(path, key)) return *code;
  std::string code = make();
  write(path, header_of(key, code) + code);
  return code;
}

std::optional<std::string> CodeCache::read(const std::string& path, const std::string& key) const {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.get() < 0 || !is_ours(file)) return {};
  auto content = content_of(file);
  const std::size_t header_bytes = header_of(key, "").size();
  if (!content || content->size() <= header_bytes) return {};
  std::string code = content->substr(header_bytes);
  if (!content->starts_with(header_of(key, code))) return {};
  return code;
}

void CodeCache::write(const std::string& path, const std::string& content) const {
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return;
  // Readers see the old file or the new one, never half of it.
  if (!write_all(file, content) || std::rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

}  // namespace lanecast::gpu
