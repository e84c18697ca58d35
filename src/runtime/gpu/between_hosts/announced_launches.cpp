// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/announced_launches.h"

namespace lanecast {

std::uint32_t AnnouncedLaunches::turn_to_next() {
  // Relaxed: what the device overwrites because of it has been read, and the reader is this thread.
  __atomic_store_n(words() + gpu::kAnnounced, std::uint64_t{++latest_}, __ATOMIC_RELAXED);
  return latest_;
}

bool AnnouncedLaunches::has_begun(std::uint32_t launch) const {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(announced(launch) >> 32) - launch) >= 0;
}

std::optional<std::uint32_t> AnnouncedLaunches::next() const {
  const std::uint64_t word = announced(latest_ + 1);
  if (static_cast<std::uint32_t>(word >> 32) != latest_ + 1) return {};
  return static_cast<std::uint32_t>(word);
}

}  // namespace lanecast
