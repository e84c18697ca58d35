// SPDX-License-Identifier: Apache-2.0
// How much of a call the executor has under way at once.
#pragma once

#include <cstdint>

namespace lanecast {

struct ExecutorOptions {
  std::uint32_t window = 256;  // steps a chunk looks ahead; at least the plan's min_window, which is 2 at most
  int chunks_in_flight = 4;
};

}  // namespace lanecast
