// SPDX-License-Identifier: Apache-2.0
// The bootstrap of ranks that have transports already: no launcher needed, and every wait has a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "runtime/wires/router.h"

namespace lanecast {

struct Gathering {
  std::vector<int> ranks;  // members by their ranks in the router
  int me = 0;              // this rank's place among them
  double timeout_s = 0;
  std::string what;         // they do, for errors
  std::uint32_t stamp = 0;  // of the call that they are in, if any
  /// Called now and then during a wait, with the ranks whose messages have not come, and when something has last moved;
  /// may end the wait by throwing; or empty.
  std::function<void(std::span<const int>, std::chrono::steady_clock::time_point)> meanwhile;
};

/// Must not run beside other messages of the router. After an error the router is of no further use.
Bootstrap bootstrap_over(std::shared_ptr<Router> router, Gathering gathering);

}  // namespace lanecast
