// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <cstdio>

namespace lanecast::simulator {
namespace {

constexpr std::size_t kLooks = 1024;  // messages, at each of which the clock is looked at
constexpr auto kEvery = std::chrono::seconds(1);

}  // namespace

void Progress::note() {
  if (++done_ % kLooks != 0) return;
  const Clock::time_point now = Clock::now();
  if (now - said_ < kEvery) return;
  said_ = now;
  std::fprintf(stderr, "progress: %zu of %zu\n", done_, all_);
}

}  // namespace lanecast::simulator
