// SPDX-License-Identifier: Apache-2.0
// Waits for a condition variable without a deadline, on hosts with an older libstdc++ as well.
#pragma once

#include <chrono>

namespace lanecast {

/// As std::condition_variable::wait, also in that it may return early. That function has a new version since the
/// libstdc++ of GCC 12 (GLIBCXX_3.4.30), so a library that calls it is not loaded where GCC 11 made the system's:
/// RHEL 9.
void wait_without_end(auto& changed, auto& lock) { changed.wait_for(lock, std::chrono::hours(24)); }

void wait_without_end(auto& changed, auto& lock, const auto& is_over) {
  while (!is_over()) wait_without_end(changed, lock);
}

}  // namespace lanecast
