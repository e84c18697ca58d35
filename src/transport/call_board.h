// SPDX-License-Identifier: Apache-2.0
// The latest calls of one rank, where its peers can read them: in shared memory, or in that of a process with threads.
#pragma once

#include <atomic>
#include <bit>
#include <optional>

#include "base/call_note.h"

namespace lanecast {

/// One writer, any number of readers. Zeroed memory is an empty board.
class CallBoard {
 public:
  void put(const CallNote& note) {
    Slot& slot = slots_[note.sequence % kSlots];
    const auto words = std::bit_cast<std::array<std::uint64_t, kWords>>(note);
    // A reader that sees any word stored below sees this zero in its second look: the fence orders the two stores.
    slot.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t k = 0; k < kWords; ++k) slot.words[k].store(words[k], std::memory_order_relaxed);
    // Release: pairs with the acquire in find(); whoever sees the number sees the note.
    slot.sequence.store(note.sequence, std::memory_order_release);
  }

  std::optional<CallNote> find(std::uint64_t sequence) const {
    const Slot& slot = slots_[sequence % kSlots];
    if (slot.sequence.load(std::memory_order_acquire) != sequence) return std::nullopt;  // pairs with put()
    std::array<std::uint64_t, kWords> words;
    for (std::size_t k = 0; k < kWords; ++k) words[k] = slot.words[k].load(std::memory_order_relaxed);
    // Pairs with the fence in put(): if any word was of the slot's next note, the number has changed.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.sequence.load(std::memory_order_relaxed) != sequence) return std::nullopt;
    return std::bit_cast<CallNote>(words);
  }

 private:
  static constexpr std::size_t kSlots = 32;  // who compares is in one of its peer's last calls, mostly the last
  static constexpr std::size_t kWords = sizeof(CallNote) / sizeof(std::uint64_t);
  static_assert(sizeof(CallNote) == kWords * sizeof(std::uint64_t));

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence;
    std::array<std::atomic<std::uint64_t>, kWords> words;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  std::array<Slot, kSlots> slots_{};
};

}  // namespace lanecast
