// SPDX-License-Identifier: Apache-2.0
// What one rank wants of one peer, where that peer can read it: in shared memory, or in that of a process with threads.
#pragma once

#include <atomic>
#include <optional>

#include "base/board.h"
#include "base/want.h"

namespace lanecast {

/// One writer, one reader, and neither waits. Zeroed memory is a rank that has never wanted anything.
class WantBoard {
 public:
  void put(const Want& want) {
    // Relaxed: its own last store.
    const std::uint64_t number = latest_.load(std::memory_order_relaxed) + 1;
    board_.put({number, want});
    latest_.store(number, std::memory_order_release);  // pairs with get()
  }

  /// Nothing also where the writer is about to put another one.
  std::optional<Want> get() const {
    const std::uint64_t number = latest_.load(std::memory_order_acquire);  // pairs with put()
    if (number == 0) return {};
    const auto found = board_.find(number);
    if (!found) return {};
    return found->want;
  }

 private:
  struct Numbered {
    std::uint64_t sequence = 0;
    Want want;
  };
  Board<Numbered, 2> board_;
  std::atomic<std::uint64_t> latest_;
};

}  // namespace lanecast
