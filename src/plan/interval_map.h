// SPDX-License-Identifier: Apache-2.0
// A piecewise constant map over [0, 1): who last wrote which part of a part, where its newest value lies, and so on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plan/fraction.h"

namespace lanecast {

template <class T>
class IntervalMap {
 public:
  explicit IntervalMap(T everywhere) { entries_.push_back({kZero, std::move(everywhere)}); }

  struct EntryRange {
    std::size_t first, last;
  };

  /// Entries that make up exactly [lo, hi); splits the entries at its ends.
  EntryRange span(Fraction lo, Fraction hi) {
    const std::size_t first = split(lo);
    return {first, split(hi)};
  }

  /// Makes [lo, hi) one entry with this value.
  void assign(Fraction lo, Fraction hi, T value) {
    const auto [first, last] = span(lo, hi);
    if (first == last) return;
    entries_[first].value = std::move(value);
    entries_.erase(entries_.begin() + first + 1, entries_.begin() + last);
  }

  T& operator[](std::size_t k) { return entries_[k].value; }
  Fraction lo(std::size_t k) const { return entries_[k].from; }
  Fraction hi(std::size_t k) const { return k + 1 < entries_.size() ? entries_[k + 1].from : kOne; }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Fraction from;
    T value;
  };

  std::size_t split(Fraction at) {
    if (at == kZero) return 0;
    if (at == kOne) return entries_.size();
    const auto after = std::upper_bound(entries_.begin(), entries_.end(), at,
                                        [](Fraction x, const Entry& entry) { return x < entry.from; });
    const std::size_t k = after - entries_.begin() - 1;
    if (entries_[k].from == at) return k;
    entries_.insert(after, Entry{at, entries_[k].value});
    return k + 1;
  }

  std::vector<Entry> entries_;
};

}  // namespace lanecast
