// SPDX-License-Identifier: Apache-2.0
// What a rank that waits wants of one peer, in such words that the peer can tell whether it will ever do it.
#pragma once

#include <array>
#include <cstdint>

namespace lanecast {

/// Ranks one after the other, each in a call that cannot end before the next rank posts a message, to it or from it,
/// that it has not posted. Each is blocked in its call and posts nothing more, so what is said of them remains true.
struct Row {  // travels between processes
  static constexpr std::uint64_t kNamed = 8;

  std::uint64_t length = 0;
  std::array<std::uint32_t, kNamed> last{};  // of them, the last one first

  /// This row with another rank at its end.
  Row and_then(int rank) const {
    Row row{length + 1, {static_cast<std::uint32_t>(rank)}};
    for (std::size_t k = 1; k < kNamed; ++k) row.last[k] = last[k - 1];
    return row;
  }

  friend bool operator==(const Row&, const Row&) = default;
};

struct Want {  // travels between processes
  enum class Of : std::uint64_t {
    nothing = 0,
    counts,   // in a collective, of counts that each rank knows only for itself: that the peer has the same
    receive,  // of a message between the two ranks: that the peer receives it, or sends it
    send,
  };
  Of of{};
  std::uint64_t call = 0;   // counts: the collective; else the last one before
  std::uint64_t chain = 0;  // of that call, as CallNote::chain
  // Counts: elements for the peer, and from it.
  std::uint64_t gives = 0, takes = 0;
  // A message.
  std::uint64_t bytes = 0, tag = 0;
  std::uint64_t ordinal = 0;  // from 0, among those that this rank has posted to that peer, or from it, under that tag
  std::uint64_t looks = 0;    // of this rank in all its calls: each comes after it has moved what could be moved
  Row behind;                 // that needs this rank to go on, while it waits for this message

  friend bool operator==(const Want&, const Want&) = default;
};

}  // namespace lanecast
