// SPDX-License-Identifier: Apache-2.0
#include "base/trust.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/owners.h"

namespace lanecast {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel's

[[noreturn]] void refuse_path(const fs::path& path, int error) {
  throw UsageError(path.string() + ": " + std::generic_category().message(error));
}

void refuse_strangers(const std::string& strangers) {
  if (!strangers.empty())
    throw UsageError(strangers +
                     ", so what lies there is not trusted: nobody but you and root may (docs/reference/trust.md)");
}

/// From / to a path, one name at a time.
class Walk {
 public:
  explicit Walk(const fs::path& path) {
    if (const fs::path home = listed_home(); !home.empty()) has_home_ = stat(home.c_str(), &home_) == 0;
    append(fs::absolute(path));
    judge_folder();
  }

  /// Throws UsageError; false where there is nothing of this name.
  bool to_the_end() {
    bool found = true;
    while (found && !ahead_.empty()) {
      const fs::path name = std::move(ahead_.back());
      ahead_.pop_back();
      found = step(name);
    }
    refuse_strangers(strangers_.empty() ? strangers_above_home_ : strangers_);
    return found;
  }

  const fs::path& here() const { return here_; }

 private:
  void append(const fs::path& path) {
    std::vector<fs::path> names(path.begin(), path.end());
    std::ranges::reverse(names);
    ahead_.insert(ahead_.end(), names.begin(), names.end());
  }

  bool step(const fs::path& name) {
    if (name.empty() || name == "." || name == "/") return true;
    if (name == "..") {
      here_ = here_.parent_path();
      return true;
    }
    const fs::path next = here_ / name;
    struct stat status{};
    if (lstat(next.c_str(), &status) != 0) {
      if (errno == ENOENT) return false;
      refuse_path(next, errno);
    }
    if (S_ISLNK(status.st_mode)) {
      follow(next, status);
      return true;
    }
    if (!S_ISDIR(status.st_mode) && !ahead_.empty()) refuse_path(next, ENOTDIR);
    here_ = next;
    judge(status);
    return true;
  }

  void follow(const fs::path& link, const struct stat& status) {
    if (++links_ > kMostLinks) refuse_path(link, ELOOP);
    // Where it leads may be this user's home, but who may turn it decides that.
    if (strangers_.empty()) strangers_ = std::move(strangers_above_home_);
    if (strangers_.empty()) strangers_ = strangers_with(status, link);
    std::error_code error;
    const fs::path target = fs::read_symlink(link, error);
    if (error) refuse_path(link, error.value());
    append(target);
    if (target.is_absolute()) here_ = "/";
  }

  void judge(const struct stat& status) {
    if (has_home_ && status.st_dev == home_.st_dev && status.st_ino == home_.st_ino) strangers_above_home_.clear();
    if (strangers_above_home_.empty()) strangers_above_home_ = strangers_with(status, here_);
  }

  void judge_folder() {
    struct stat status{};
    if (lstat(here_.c_str(), &status) == 0) judge(status);
  }

  fs::path here_ = "/";          // no link on the way to it
  std::vector<fs::path> ahead_;  // the next name is the last one
  int links_ = 0;
  struct stat home_{};
  bool has_home_ = false;
  // The first who may write on the way, and the first of the present way from /, which the home takes back.
  std::string strangers_, strangers_above_home_;
};

std::string content_of(const FileDescriptor& file, const fs::path& path) {
  std::string content;
  std::array<char, 65536> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
  for (;;) {
    const ssize_t bytes = ::read(file.get(), piece.data(), piece.size());
    if (bytes == 0) return content;
    if (bytes > 0) content.append(piece.data(), static_cast<std::size_t>(bytes));
    if (bytes < 0 && errno != EINTR) refuse_path(path, errno);
  }
}

}  // namespace

fs::path trusted_path(const fs::path& path) {
  Walk walk(path);
  return walk.to_the_end() ? walk.here() : fs::path();
}

std::optional<std::string> trusted_text(const fs::path& path) {
  const fs::path real = trusted_path(path);
  if (real.empty()) return {};
  // Opened once and judged again: what is read is what was judged. A pipe without a writer does not hold anybody up.
  const FileDescriptor file(open(real.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return {};
  struct stat status{};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) refuse_path(real, errno);
  refuse_strangers(strangers_with(status, real));
  if (S_ISDIR(status.st_mode)) refuse_path(real, EISDIR);
  if (!S_ISREG(status.st_mode)) throw UsageError(real.string() + ": is no ordinary file");
  return content_of(file, real);
}

void make_folders(const fs::path& folder) {
  if (folder.empty()) throw UsageError("the name of the folder is empty");
  fs::path made;
  for (const fs::path& name : fs::absolute(folder)) {
    made /= name;
    if (mkdir(made.c_str(), S_IRWXU) == 0 || errno == EEXIST) continue;
    const int error = errno;  // also of one that is there, where nothing can be made beside it
    if (struct stat status{}; stat(made.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) refuse_path(made, error);
  }
}

void make_private(const fs::path& folder) {
  trusted_path(folder);  // nothing is made where a stranger leads to
  make_folders(folder);
  const fs::path real = trusted_path(folder);  // also where another process was quicker
  struct stat status{};
  if (stat(real.c_str(), &status) != 0) refuse_path(folder, errno);
  if (!S_ISDIR(status.st_mode)) refuse_path(folder, ENOTDIR);
  if (faccessat(AT_FDCWD, real.c_str(), W_OK | X_OK, AT_EACCESS) != 0) refuse_path(real, errno);
}

}  // namespace lanecast
