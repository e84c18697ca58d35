// SPDX-License-Identifier: Apache-2.0
#include "base/owners.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace lanecast {
namespace {

constexpr std::size_t kNamesBytes = 65536;  // of a group with thousands of members

struct User {
  std::string name, home;
};

std::optional<User> user(uid_t id) {
  std::vector<char> text(kNamesBytes);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(id, &entry, text.data(), text.size(), &found) != 0 || !found) return {};
  return User{found->pw_name, found->pw_dir};
}

struct UserGroup {
  std::string name;
  std::vector<std::string> members;
};

std::optional<UserGroup> group(gid_t id) {
  std::vector<char> text(kNamesBytes);
  ::group entry{};
  ::group* found = nullptr;
  if (getgrgid_r(id, &entry, text.data(), text.size(), &found) != 0 || !found) return {};
  UserGroup made{found->gr_name, {}};
  for (char** member = found->gr_mem; *member; ++member) made.members.emplace_back(*member);
  return made;
}

/// Where users have groups of their own, their umask lets the group write: pam_umask and login know such a group by
/// its user's name, and so is it known here.
bool is_private(gid_t id) {
  const std::optional<User> me = user(geteuid());
  const std::optional<UserGroup> of_file = group(id);
  if (!me || !of_file || of_file->name != me->name) return false;
  return of_file->members.empty() || of_file->members == std::vector{me->name};
}

/// In a user namespace the kernel shows one id for all users whom the namespace does not know, root among them.
bool is_unknown(uid_t id) {
  std::uint64_t overflow = 0, inside = 0, outside = 0, count = 0;
  if (!(std::ifstream("/proc/sys/kernel/overflowuid") >> overflow) || id != overflow) return false;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  return count > 0 && count < UINT32_MAX;
}

std::string numbered(std::uint64_t id, const std::string& name) {
  return std::to_string(id) + (name.empty() ? "" : " (" + name + ")");
}

}  // namespace

std::string strangers_with(const struct stat& status, const std::filesystem::path& path) {
  const bool is_folder = S_ISDIR(status.st_mode);
  // A folder of unknown owner is taken for root's, as / and /home are in such a namespace: what is read from it has to
  // be this user's all the same.
  if (status.st_uid != geteuid() && status.st_uid != 0 && !(is_folder && is_unknown(status.st_uid))) {
    const std::optional<User> owner = user(status.st_uid);
    return path.string() + " belongs to user " + numbered(status.st_uid, owner ? owner->name : "");
  }
  if (S_ISLNK(status.st_mode) || (is_folder && (status.st_mode & S_ISVTX) != 0)) return {};
  if ((status.st_mode & S_IWOTH) != 0) return "every user may write to " + path.string();
  if ((status.st_mode & S_IWGRP) != 0 && status.st_gid != 0 && !is_private(status.st_gid)) {
    const std::optional<UserGroup> writers = group(status.st_gid);
    return "group " + numbered(status.st_gid, writers ? writers->name : "") + " may write to " + path.string();
  }
  return {};
}

std::filesystem::path listed_home() {
  const std::optional<User> me = user(geteuid());
  return me ? me->home : std::string();
}

}  // namespace lanecast
