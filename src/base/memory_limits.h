// SPDX-License-Identifier: Apache-2.0
// May this process take more memory? Where a control group's limit is met, the kernel ends a process instead of
// refusing, so whoever is about to take memory for real asks first.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lanecast {

/// Why `bytes` more are too much here, with what to do, or empty. Reads a few files of the system: microseconds.
std::string memory_shortage(std::size_t bytes);

/// The same of these control groups' folders (of version 1 or 2), on a host with that /proc/meminfo.
std::string memory_shortage(std::size_t bytes, std::span<const std::string> groups, std::string_view meminfo);

/// Folders of the control groups that count a process' memory, innermost first, by its /proc/self/cgroup and
/// /proc/self/mountinfo. What cannot be read is left out.
std::vector<std::string> memory_groups(std::string_view cgroup, std::string_view mountinfo);

}  // namespace lanecast
