// SPDX-License-Identifier: Apache-2.0
// Have all members of a group come to the same call? Asked before a library gets their buffers: it compares nothing,
// and where calls differ it hangs or leaves wrong data.
#pragma once

#include <algorithm>
#include <deque>
#include <span>
#include <vector>

#include "runtime/router.h"

namespace lanecast {

/// A dissemination barrier: in round k each member sends to the one 2^k places further on, and hears from the one 2^k
/// places before, ⌈log₂ n⌉ rounds in all. Its messages carry the call's stamp, so calls that differ never get through.
class RollCall {
 public:
  /// me: this rank, one of `ranks`. number: unlike that of any other roll call of the same call.
  RollCall(Router& router, std::vector<int> ranks, int me, int number);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  bool is_of(std::span<const int> ranks) const { return std::ranges::equal(ranks_, ranks); }
  void begin(std::uint32_t stamp);
  bool finished() const { return open_ == 0; }
  /// Of whom this rank has not heard, each once; none where only a send is left.
  std::vector<int> awaited_peers() const;

 private:
  struct Token final : Posted {
    void arrived() override;
    RollCall* roll = nullptr;
    bool done = true;
    std::byte byte{};
    Span span;
  };

  /// Sends what the receives that have come allow.
  void go_on();
  Token& addressed(Token& token, std::size_t round) const;

  Router& router_;
  std::vector<int> ranks_;
  int number_;
  std::deque<Token> sends_, receives_;  // by round; they stay where they are
  std::size_t sent_ = 0;
  std::size_t open_ = 0;
  std::uint32_t stamp_ = 0;
};

}  // namespace lanecast
