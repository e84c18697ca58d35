// SPDX-License-Identifier: Apache-2.0
// Started calls with what they use, which their callers may drop without waiting.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace lanecast {

/// A call is added by the function that has started it: once Python goes on, a signal's handler may raise, and what
/// nobody holds would lose its buffers while they are in use. Guarded by the GIL.
class HeldCalls {
 public:
  /// kept: until `done` returns true, and something else is held.
  void hold(std::function<bool()> done, nanobind::object kept) {
    const auto over =
        std::stable_partition(calls_.begin(), calls_.end(), [](const Held& call) { return !call.done(); });
    const std::vector<Held> gone(std::make_move_iterator(over), std::make_move_iterator(calls_.end()));
    calls_.erase(over, calls_.end());
    calls_.push_back({std::move(done), std::move(kept)});
    // `gone` goes last: that may run Python code, which may start calls.
  }

 private:
  struct Held {
    std::function<bool()> done;
    nanobind::object kept;
  };
  std::vector<Held> calls_;
};

}  // namespace lanecast
