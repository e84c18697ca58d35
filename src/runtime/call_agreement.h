// SPDX-License-Identifier: Apache-2.0
// Do all ranks make the same calls in the same order? Each call has a signature, and each rank a chain of them.
//
// Every message carries a stamp of its sender's chain, so nothing is ever received from a call that differs. A rank
// that waits compares its call with those of the peers it waits for, which finds calls whose messages never meet.
#pragma once

#include <span>
#include <string>

#include "runtime/router.h"
#include "transport/call_board.h"

namespace lanecast {

struct Shape;
struct Plan;

/// What has to be equal on all ranks: the collective and its arguments, and the algorithm and chunks that decide who
/// sends what to whom. Not the buffers, nor whether the call is in-place.
struct Signature {
  std::string text;  // "all_reduce of 1000 float32, sum, by ring in 4 chunks"
  std::uint64_t hash = 0;
};
/// Bytes of the vector that all ranks share in; 0 where each rank knows its own counts only.
std::size_t full_bytes(const Plan& plan, const Shape& shape);
Signature signature_of(const Plan& plan, const Shape& shape);

class CallAgreement {
 public:
  CallAgreement(Router& router, int rank, std::uint64_t communicator, bool on);

  /// A call begins on this rank. Returns the stamp of its messages.
  std::uint32_t begin(std::uint64_t sequence, const Signature& signature);
  /// Throws MismatchError, with both calls, where one of `peers` is known to have made another call than this rank.
  void compare(std::span<const int> peers) const;

 private:
  [[noreturn]] void refuse(int peer, const CallNote& mine, const CallNote& theirs) const;

  Router& router_;
  int rank_;
  std::uint64_t communicator_;
  bool on_;
  std::uint64_t chain_ = 0;
  std::uint64_t sequence_ = 0;
  CallBoard mine_;
};

}  // namespace lanecast
