// SPDX-License-Identifier: Apache-2.0
#include "base/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "base/file_descriptor.h"

namespace lanecast {
namespace {

constexpr int kMostNames = 100;  // that processes which died half way may have left

bool write_all(const FileDescriptor& file, std::string_view content) {
  while (!content.empty()) {
    const ssize_t bytes = ::write(file.get(), content.data(), content.size());
    if (bytes < 0 && errno != EINTR) return false;
    if (bytes > 0) content.remove_prefix(static_cast<std::size_t>(bytes));
  }
  return true;
}

}  // namespace

int write_whole(const std::filesystem::path& path, std::string_view content, mode_t mode) {
  std::string draft;
  FileDescriptor file;
  for (int k = 0; file.get() < 0; ++k) {
    draft = path.string() + "." + std::to_string(gettid()) + "-" + std::to_string(k) + ".tmp";
    file = FileDescriptor(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (file.get() < 0 && (errno != EEXIST || k == kMostNames)) return errno;
  }
  if (write_all(file, content) && std::rename(draft.c_str(), path.c_str()) == 0) return 0;
  const int error = errno;
  unlink(draft.c_str());
  return error;
}

}  // namespace lanecast
