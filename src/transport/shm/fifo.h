// SPDX-License-Identifier: Apache-2.0
// A first-in-first-out queue that keeps its memory: unlike std::deque, which takes and frees a block every few dozen
// entries, it allocates nothing once it has grown to the largest number of entries at a time.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace lanecast::shm {

template <class T>
class Fifo {
 public:
  bool empty() const { return size_ == 0; }
  T& front() { return slots_[first_]; }
  const T& front() const { return slots_[first_]; }

  void push_back(T value) {
    if (size_ == slots_.size()) grow();
    slots_[(first_ + size_++) & (slots_.size() - 1)] = std::move(value);
  }

  void pop_front() {
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (std::size_t k = 0; k < size_; ++k) larger[k] = std::move(slots_[(first_ + k) & (slots_.size() - 1)]);
    slots_.swap(larger);
    first_ = 0;
  }

  std::vector<T> slots_;  // a power of two
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace lanecast::shm
