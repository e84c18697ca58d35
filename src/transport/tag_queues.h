// SPDX-License-Identifier: Apache-2.0
// First-in-first-out queues named by a tag: what matches sends with receives. Every call takes constant time, and
// none allocates once the tables have grown to the largest number of messages under way.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lanecast {

template <class T>
class TagQueues {
 public:
  bool empty() const { return queues_ == 0; }

  void push(std::uint64_t tag, T value) {
    if (2 * (queues_ + 1) > slots_.size()) grow();
    const std::uint32_t node = new_node(std::move(value));
    TagSlot& slot = slots_[find(tag)];
    if (slot.first == kNone) {
      slot = {tag, node, node};
      ++queues_;
    } else {
      nodes_[slot.last].next = node;
      slot.last = node;
    }
  }

  /// The oldest value under `tag`, or null.
  T* front(std::uint64_t tag) {
    if (empty()) return nullptr;
    const TagSlot& slot = slots_[find(tag)];
    return slot.first == kNone ? nullptr : &nodes_[slot.first].value;
  }

  /// Takes the oldest value under `tag`.
  std::optional<T> pop(std::uint64_t tag) {
    if (empty()) return std::nullopt;
    const std::size_t at = find(tag);
    const std::uint32_t node = slots_[at].first;
    if (node == kNone) return std::nullopt;
    std::optional<T> value(std::move(nodes_[node].value));
    slots_[at].first = nodes_[node].next;
    if (slots_[at].first == kNone) close_gap(at);
    nodes_[node].next = free_;
    free_ = node;
    return value;
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct TagSlot {
    std::uint64_t tag = 0;
    std::uint32_t first = kNone, last = kNone;  // nodes; a slot without a first one is free
  };
  struct Node {
    T value;
    std::uint32_t next;
  };

  // Multiplicative hashing: the high bits of the product depend on all bits of the tag.
  std::size_t home(std::uint64_t tag) const {
    return tag * 0x9e3779b97f4a7c15u >> (64 - std::countr_zero(slots_.size()));
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  /// The slot of `tag`, or the free one where it belongs.
  std::size_t find(std::uint64_t tag) const {
    std::size_t at = home(tag);
    while (slots_[at].first != kNone && slots_[at].tag != tag) at = next(at);
    return at;
  }

  /// Linear probing without tombstones: later slots of the run move up unless that would put them before their home.
  void close_gap(std::size_t gap) {
    --queues_;
    for (std::size_t at = next(gap); slots_[at].first != kNone; at = next(at)) {
      const std::size_t mask = slots_.size() - 1;
      if (((at - home(slots_[at].tag)) & mask) < ((at - gap) & mask)) continue;
      slots_[gap] = slots_[at];
      slots_[at].first = kNone;
      gap = at;
    }
  }

  void grow() {
    std::vector<TagSlot> old(slots_.empty() ? 16 : 2 * slots_.size());
    old.swap(slots_);
    for (const TagSlot& slot : old)
      if (slot.first != kNone) slots_[find(slot.tag)] = slot;
  }

  std::uint32_t new_node(T value) {
    if (free_ == kNone) {
      nodes_.push_back({std::move(value), kNone});
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    const std::uint32_t node = free_;
    free_ = nodes_[node].next;
    nodes_[node] = {std::move(value), kNone};
    return node;
  }

  std::vector<TagSlot> slots_;  // a power of two, at most half of them in use
  std::vector<Node> nodes_;
  std::uint32_t free_ = kNone;  // list of unused nodes
  std::size_t queues_ = 0;
};

}  // namespace lanecast
