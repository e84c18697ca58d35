// SPDX-License-Identifier: Apache-2.0
// What was bound for a call, for the calls after it that differ in nothing but their buffers.
#pragma once

#include <string>
#include <string_view>

#include "base/recently_used.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {

template <class Value>
class RecentCalls {
 public:
  explicit RecentCalls(std::size_t most) : bound_(most) {}

  /// Of an equal call before, or null. collective: collective_of() the call. algorithm: as it was asked for, or what
  /// stands in its place.
  Value* find(const Collective& collective, const Call& call, std::string_view algorithm) {
    return bound_.find([&](const CallKey& key) {
      return key.collective == collective && key.algorithm == algorithm && describes(call, key.shape);
    });
  }

  template <class... Arguments>
  Value& make(Collective collective, const Call& call, std::string_view algorithm, Arguments&&... arguments) {
    return bound_.make({std::move(collective), shape_of(call), std::string(algorithm)},
                       std::forward<Arguments>(arguments)...);
  }

  void clear() { bound_.clear(); }

 private:
  struct CallKey {
    Collective collective;
    Shape shape;  // with the chunks that the call asked for
    std::string algorithm;
  };
  RecentlyUsed<CallKey, Value> bound_;
};

}  // namespace lanecast
