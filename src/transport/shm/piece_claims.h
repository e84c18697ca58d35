// SPDX-License-Identifier: Apache-2.0
// A large message that both its ends copy at once: the receiver reads pieces of it from the sender's memory, and a
// sender that has nothing else to do writes others into the receiver's. One word of the lane says who takes which.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lanecast::shm {

/// Some of a message, one behind the other.
struct PieceRun {
  std::uint32_t first = 0, count = 1;
};

/// Of a message; both ends divide it alike.
struct CopyPieces {
  CopyPieces() = default;
  /// One system call copies a piece. By 64 KiB they are 4 to 15 % slower than by 256; a short message has two.
  explicit CopyPieces(std::size_t message_bytes)
      : message_bytes(message_bytes),
        piece_bytes(std::clamp((message_bytes / 2 + kPage - 1) / kPage * kPage, kLeastBytes, kMostBytes)),
        count(static_cast<std::uint32_t>((message_bytes + piece_bytes - 1) / piece_bytes)) {}

  std::size_t begin(PieceRun run) const { return run.first * piece_bytes; }
  std::size_t end(PieceRun run) const { return std::min(message_bytes, (run.first + run.count) * piece_bytes); }

  static constexpr std::size_t kPage = 4096, kLeastBytes = std::size_t{64} << 10, kMostBytes = std::size_t{256} << 10;
  std::size_t message_bytes = 0, piece_bytes = kLeastBytes;
  std::uint32_t count = 0;
};

/// In the memory of a lane, for the message that its receiver reads.
class PieceClaims {
 public:
  /// By the receiver, for the next message; nobody has a piece of the last one any more. Its number, not 0.
  std::uint32_t begin() {
    // Relaxed: the sender looks at them when it has claimed a piece under the new number.
    written_.store(0, std::memory_order_relaxed);
    refused_.store(0, std::memory_order_relaxed);
    const std::uint32_t number = std::max(number_of(next_.load(std::memory_order_relaxed)) + 1, 1u);
    next_.store(word(number, 0), std::memory_order_release);  // release: pairs with claim(); the two above come before
    return number;
  }

  /// The next pieces, `most` at most, for the caller alone; nothing where all are taken, or the receiver has gone on to
  /// another message.
  std::optional<PieceRun> claim(std::uint32_t number, const CopyPieces& pieces, std::uint32_t most) {
    std::uint64_t seen = next_.load(std::memory_order_relaxed);
    while (is_left(seen, number, pieces)) {
      const auto first = static_cast<std::uint32_t>(seen);
      const PieceRun run{first, std::min(most, pieces.count - first)};
      // Acquire: pairs with begin().
      if (next_.compare_exchange_weak(seen, seen + run.count, std::memory_order_acquire, std::memory_order_relaxed))
        return run;
    }
    return {};
  }
  bool is_left(std::uint32_t number, const CopyPieces& pieces) const {
    return is_left(next_.load(std::memory_order_relaxed), number, pieces);
  }

  /// By the receiver: nobody gets a piece any more. How many both have taken.
  std::uint32_t withdraw() {
    const std::uint64_t seen = next_.load(std::memory_order_relaxed);
    return static_cast<std::uint32_t>(next_.exchange(word(number_of(seen) + 1, UINT32_MAX), std::memory_order_relaxed));
  }

  /// By the sender, when a piece that it has claimed lies in the receiver's memory. Release: pairs with written().
  void wrote() { written_.fetch_add(1, std::memory_order_release); }
  std::uint32_t written() const { return written_.load(std::memory_order_acquire); }
  /// By the sender, of a piece that it has claimed and that the system does not let it write. It claims no other one.
  void refuse(std::uint32_t piece) { refused_.store(piece + 1, std::memory_order_release); }
  std::optional<std::uint32_t> refused() const {
    const std::uint32_t found = refused_.load(std::memory_order_acquire);  // pairs with refuse()
    return found == 0 ? std::nullopt : std::optional(found - 1);
  }

 private:
  static std::uint64_t word(std::uint32_t number, std::uint32_t piece) { return std::uint64_t{number} << 32 | piece; }
  static std::uint32_t number_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static bool is_left(std::uint64_t word, std::uint32_t number, const CopyPieces& pieces) {
    return number_of(word) == number && static_cast<std::uint32_t>(word) < pieces.count;
  }

  alignas(64) std::atomic<std::uint64_t> next_;  // the message's number, and its next piece; written by both
  alignas(64) std::atomic<std::uint32_t> written_;
  std::atomic<std::uint32_t> refused_;  // one more than the piece; 0: none
};

}  // namespace lanecast::shm
