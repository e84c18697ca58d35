// SPDX-License-Identifier: Apache-2.0
// Numbers for keys as they come: the first key is 0, the next new one 1, and so on. A hash table without nodes, because
// a proof asks it millions of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanecast {

class Numbering {
 public:
  struct Key {
    std::int32_t a = 0, b = 0, c = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;

  /// The key's number, a new one if it has none.
  std::uint32_t add(Key key) {
    if (2 * keys_.size() >= slots_.size()) grow();
    std::uint32_t& slot = slots_[slot_of(key)];
    if (slot == kNone) {
      slot = static_cast<std::uint32_t>(keys_.size());
      keys_.push_back(key);
    }
    return slot;
  }

  /// The key's number, or kNone.
  std::uint32_t find(Key key) const { return keys_.empty() ? kNone : slots_[slot_of(key)]; }

  std::size_t size() const { return keys_.size(); }
  const Key& operator[](std::size_t number) const { return keys_[number]; }

 private:
  std::size_t slot_of(Key key) const {
    const std::uint64_t low =
        (std::uint64_t{static_cast<std::uint32_t>(key.b)} << 32) | static_cast<std::uint32_t>(key.c);
    std::uint64_t hash = (low ^ (static_cast<std::uint64_t>(key.a) * 0xd6e8feb86659fd93u)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at] != kNone && !(keys_[slots_[at]] == key)) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    slots_.assign(slots_.empty() ? 64 : 2 * slots_.size(), kNone);
    for (std::size_t k = 0; k < keys_.size(); ++k) slots_[slot_of(keys_[k])] = static_cast<std::uint32_t>(k);
  }

  std::vector<Key> keys_;             // of each number
  std::vector<std::uint32_t> slots_;  // a power of two of them, at most half full
};

}  // namespace lanecast
