// SPDX-License-Identifier: Apache-2.0
// Which receives belong to a send of the same rank, since two ranks send to each other at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lanecast {

/// A receive and the send of the same ordinal to the same peer, where that send waits for nothing but earlier messages
/// from this peer. Such a receive may start as late as the send: the peer starts what the send waits for before it
/// starts the receive's message, and so without it.
class Exchanges {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit Exchanges(const Plan& plan);

  /// Of a receive its send and the other way round; kNone: the step is no side of an exchange.
  std::uint32_t other(std::uint32_t step) const { return other_[step]; }

 private:
  std::vector<std::uint32_t> other_;
};

}  // namespace lanecast
