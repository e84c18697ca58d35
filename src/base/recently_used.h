// SPDX-License-Identifier: Apache-2.0
// Values by keys, as many as were used last: what is made at some cost and wanted again.
#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace lanecast {

/// A hit allocates nothing, and one of the value used last looks at one key. Values stay where they are.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(std::size_t most) : most_(most) {}

  /// The value whose key matches, which is the latest used from now on; null where none does.
  template <class Matches>
  Value* find(const Matches& matches) {
    for (auto e = entries_.begin(); e != entries_.end(); ++e) {
      if (!matches(std::as_const(e->key))) continue;
      entries_.splice(entries_.begin(), entries_, e);
      return &e->value;
    }
    return nullptr;
  }

  /// Made of `arguments`; the one that was not used for longest goes where there are too many.
  template <class... Arguments>
  Value& make(Key key, Arguments&&... arguments) {
    entries_.emplace_front(std::move(key), std::forward<Arguments>(arguments)...);
    if (entries_.size() > most_) entries_.pop_back();
    return entries_.front().value;
  }

  void clear() { entries_.clear(); }

 private:
  struct Kept {
    template <class... Arguments>
    explicit Kept(Key made_for, Arguments&&... arguments)
        : key(std::move(made_for)), value(std::forward<Arguments>(arguments)...) {}
    Key key;
    Value value;
  };

  std::size_t most_;
  std::list<Kept> entries_;  // the latest used first
};

}  // namespace lanecast
