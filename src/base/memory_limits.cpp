// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limits.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace lanecast {

namespace {

constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 62;  // what version 1 says for no limit is near 2^63
// Kept free, beside what is asked for: other ranks take memory at the same time, and so does the kernel for them.
constexpr std::uint64_t kMostKept = std::uint64_t{64} << 20;
std::uint64_t kept_of(std::uint64_t limit) { return std::min(limit / 32, kMostKept); }

/// How the two versions of control groups name what counts here.
struct Names {
  const char *limit, *used, *inactive, *active, *swap_limit, *swap_used;
  bool swap_holds_memory;  // its figures are of both together
};
constexpr Names kLimitFiles[] = {
    {"memory.max", "memory.current", "inactive_file", "active_file", "memory.swap.max", "memory.swap.current", false},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file",
     "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", true},
};

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc{}) return {};
  return number;
}

/// The number behind a word at a line's start: "MemFree:   17 kB", "inactive_file 17".
std::uint64_t number_behind(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    if (at > 0 && text[at - 1] != '\n') continue;
    const std::string_view rest = text.substr(at + word.size());
    const std::size_t digits = rest.find_first_not_of(' ');
    if (digits == 0 || digits == std::string_view::npos) continue;  // a longer word, or nothing
    return std::min(number_in(rest.substr(digits)).value_or(0), kUnlimited);
  }
  return 0;
}

std::uint64_t from_kib(std::uint64_t kib) { return std::min(kib, kUnlimited >> 10) << 10; }

std::uint64_t less(std::uint64_t whole, std::uint64_t part) { return whole > part ? whole - part : 0; }

std::string mib(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

/// A limit of the group, or nothing.
std::optional<std::uint64_t> figure(const std::string& folder, const char* name) {
  const auto number = number_in(text_of(folder + "/" + name));
  return number && *number < kUnlimited ? number : std::nullopt;
}

/// What can be swapped out for the group.
std::uint64_t swap_left(const std::string& folder, const Names& names, std::uint64_t free, std::uint64_t swap_free) {
  const auto limit = figure(folder, names.swap_limit);
  if (!limit) return swap_free;
  const std::uint64_t left = less(*limit, figure(folder, names.swap_used).value_or(0));
  return std::min(swap_free, names.swap_holds_memory ? less(left, free) : left);
}

std::string shortage_in(const std::string& folder, std::size_t bytes, std::uint64_t swap_free) {
  for (const Names& names : kLimitFiles) {
    const auto limit = figure(folder, names.limit);
    const auto used = figure(folder, names.used);
    if (!limit || !used) continue;
    const std::uint64_t wanted = bytes + kept_of(*limit), free = less(*limit, *used);
    if (free >= wanted) return {};
    // The kernel drops copies of files before it ends a process.
    const std::string stat = text_of(folder + "/memory.stat");
    const std::uint64_t files = number_behind(stat, names.inactive) + number_behind(stat, names.active);
    const std::uint64_t left = free + files + swap_left(folder, names, free, swap_free);
    if (left >= wanted) return {};
    return "the memory cgroup " + folder + " has " + mib(left) + " left of " + mib(*limit) + "; raise its limit (" +
           names.limit + "), or use fewer or smaller communicators";
  }
  return {};
}

std::vector<std::string_view> words(std::string_view text, char between) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

bool holds(std::string_view list, std::string_view word) {
  const auto all = words(list, ',');
  return std::ranges::find(all, word) != all.end();
}

/// Where the group `path` of a hierarchy lies, where that is mounted at `point` from its folder `root` on. A container
/// may see its own group alone.
std::string folder_of(std::string_view path, std::string_view root, std::string_view point) {
  if (root == "/") root = "";
  const bool below = path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  std::string folder(point);
  if (below) folder += path.substr(root.size());
  while (folder.ends_with('/')) folder.pop_back();
  return folder;
}

}  // namespace

std::vector<std::string> memory_groups(std::string_view cgroup, std::string_view mountinfo) {
  std::vector<std::string> found;
  for (const std::string_view line : words(cgroup, '\n')) {
    const auto fields = words(line, ':');  // hierarchy, controllers, path
    if (fields.size() < 3 || !fields[2].starts_with('/')) continue;
    const bool unified = fields[1].empty();
    if (!unified && !holds(fields[1], "memory")) continue;
    for (const std::string_view mount : words(mountinfo, '\n')) {
      const auto parts = words(mount, ' ');
      const auto dash = std::ranges::find(parts, "-");
      if (parts.size() < 5 || parts.end() - dash < 4) continue;
      if (unified ? dash[1] != "cgroup2" : dash[1] != "cgroup" || !holds(dash[3], "memory")) continue;
      const std::string_view point = parts[4];
      std::string folder = folder_of(fields[2], parts[3], point);
      for (; folder.size() > point.size(); folder.resize(folder.rfind('/'))) found.push_back(folder);
      found.emplace_back(point);
      break;
    }
  }
  return found;
}

std::string memory_shortage(std::size_t bytes, std::span<const std::string> groups, std::string_view meminfo) {
  const std::uint64_t swap_free = from_kib(number_behind(meminfo, "SwapFree:"));
  for (const std::string& folder : groups)
    if (std::string shortage = shortage_in(folder, bytes, swap_free); !shortage.empty()) return shortage;
  const std::uint64_t total = from_kib(number_behind(meminfo, "MemTotal:"));
  const std::uint64_t left = from_kib(number_behind(meminfo, "MemAvailable:")) + swap_free;
  if (total == 0 || left >= bytes + kept_of(total)) return {};
  return "this host has " + mib(left) + " of memory left; end other programs, or use fewer ranks or communicators";
}

std::string memory_shortage(std::size_t bytes) {
  // Those with a limit; processes are moved before they are started.
  static const std::vector<std::string> limited = [] {
    std::vector<std::string> groups = memory_groups(text_of("/proc/self/cgroup"), text_of("/proc/self/mountinfo"));
    std::erase_if(groups, [](const std::string& folder) {
      return std::ranges::none_of(kLimitFiles,
                                  [&](const Names& names) { return figure(folder, names.limit).has_value(); });
    });
    return groups;
  }();
  return memory_shortage(bytes, limited, text_of("/proc/meminfo"));
}

}  // namespace lanecast
