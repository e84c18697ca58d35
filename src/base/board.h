// SPDX-License-Identifier: Apache-2.0
// The latest numbered records of one writer, for others to read at any time: threads, and processes that share memory.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace lanecast {

/// One writer, any number of readers, and nobody waits. Record::sequence counts from 1, and a record replaces that of
/// `slots` numbers before. Zeroed memory is an empty board.
template <class Record, std::size_t slots>
class Board {
 public:
  static constexpr std::size_t kSlots = slots;

  void put(const Record& record) {
    Slot& slot = slots_[record.sequence % kSlots];
    // A reader that sees any word stored below sees this zero in its second look: the fence orders the two stores.
    slot.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    // Word by word, as its last ones have just been stored: a wider load would wait for those to reach the cache.
    for (std::size_t k = 0; k < kWords; ++k) {
      std::uint64_t word;
      std::memcpy(&word, reinterpret_cast<const std::byte*>(&record) + 8 * k, sizeof word);
      slot.words[k].store(word, std::memory_order_relaxed);
    }
    // Release: pairs with the acquire in find(); whoever sees the number sees the record.
    slot.sequence.store(record.sequence, std::memory_order_release);
  }

  /// Changes one word of a record that is still there: `offset` bytes from its start. Readers get it before or after.
  void amend(std::uint64_t sequence, std::size_t offset, std::uint64_t word) {
    // Release: what the writer has stored before is there for whoever sees the word and then looks with an acquire.
    slots_[sequence % kSlots].words[offset / sizeof word].store(word, std::memory_order_release);
  }

  std::optional<Record> find(std::uint64_t sequence) const {
    const Slot& slot = slots_[sequence % kSlots];
    if (slot.sequence.load(std::memory_order_acquire) != sequence) return std::nullopt;  // pairs with put()
    std::array<std::uint64_t, kWords> words;
    for (std::size_t k = 0; k < kWords; ++k) words[k] = slot.words[k].load(std::memory_order_relaxed);
    // Pairs with the fence in put(): if any word was of the slot's next record, the number has changed.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.sequence.load(std::memory_order_relaxed) != sequence) return std::nullopt;
    return std::bit_cast<Record>(words);
  }

 private:
  static constexpr std::size_t kWords = sizeof(Record) / sizeof(std::uint64_t);
  static_assert(sizeof(Record) == kWords * sizeof(std::uint64_t));
  static_assert(std::has_unique_object_representations_v<Record>, "holes in a record have no value to copy");

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence;
    std::array<std::atomic<std::uint64_t>, kWords> words;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  std::array<Slot, kSlots> slots_{};
};

}  // namespace lanecast
