// SPDX-License-Identifier: Apache-2.0
// Have all members of a group come to the same call? Asked before a library gets their buffers: it compares nothing,
// and where calls differ it hangs or leaves wrong data.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "runtime/wires/router.h"

namespace lanecast {

/// A dissemination barrier: in round k each member sends to the one 2^k places further on, and hears from the one 2^k
/// places before, ⌈log₂ n⌉ rounds in all. Its messages carry the call's stamp, so calls that differ never get through.
class RollCall {
 public:
  /// sets: all those of this rank's groups in the call, each once, in an order that does not depend on the rank.
  RollCall(Router& router, const std::vector<std::vector<int>>& sets, std::size_t which, int me);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  void begin(std::uint32_t stamp);
  bool finished() const { return open_ == 0; }
  const std::vector<int>& members() const { return members_; }
  /// Of whom this rank has not heard, each once; none where only a send is left.
  std::vector<int> awaited_peers() const;

 private:
  struct Token final : Posted {
    void arrived() override;
    RollCall* roll = nullptr;
    bool done = true;
    // Among the roll calls of the call that both ends take part in: ranks do not know of each other's other sets.
    std::uint64_t number = 0;
    std::byte byte{};
    Span span;
  };

  /// Sends what the receives that have come allow.
  void go_on();
  Token& addressed(Token& token, std::size_t round) const;

  Router& router_;
  std::vector<int> members_;
  std::deque<Token> sends_, receives_;  // by round; they stay where they are
  std::size_t sent_ = 0;
  std::size_t open_ = 0;
  std::uint32_t stamp_ = 0;
};

}  // namespace lanecast
