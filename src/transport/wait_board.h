// SPDX-License-Identifier: Apache-2.0
// Whom one rank waits for, where its peers can read it: in shared memory, or in that of a process with threads.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <span>

#include "transport/witness.h"

namespace lanecast {

/// One writer, any number of readers. Zeroed memory is a rank that has never waited.
class WaitBoard {
 public:
  /// Ranks beyond kRanks are left out.
  void put(std::span<const int> peers) {
    std::array<std::uint64_t, kWords> words{};
    for (const int peer : peers)
      if (peer < kRanks) words[peer / 64] |= std::uint64_t{1} << (peer % 64);
    // Relaxed: a reader may get some ranks of this wait and some of the one before; it only looks for words to say.
    for (std::size_t k = 0; k < kWords; ++k) peers_[k].store(words[k], std::memory_order_relaxed);
    put_ns_.store(now_ns(), std::memory_order_relaxed);
  }

  Waiting get() const {
    Waiting found;
    const std::int64_t put_ns = put_ns_.load(std::memory_order_relaxed);
    if (put_ns > 0) found.age_s = static_cast<double>(now_ns() - put_ns) * 1e-9;
    for (std::size_t k = 0; k < kWords; ++k)
      for (std::uint64_t word = peers_[k].load(std::memory_order_relaxed); word != 0; word &= word - 1)
        found.peers.push_back(static_cast<int>(64 * k) + std::countr_zero(word));
    return found;
  }

 private:
  static constexpr int kRanks = 4096;
  static constexpr std::size_t kWords = kRanks / 64;

  /// Equal in all processes of a host.
  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  std::atomic<std::int64_t> put_ns_;
  std::array<std::atomic<std::uint64_t>, kWords> peers_;
};

}  // namespace lanecast
