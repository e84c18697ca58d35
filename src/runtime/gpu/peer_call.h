// SPDX-License-Identifier: Apache-2.0
// A plan's group step as a call of the peers of a host.
#pragma once

#include "peers/peer_group.h"
#include "runtime/bound/group_step.h"

namespace lanecast {

/// Without an offer of windows. signature: equal on ranks that make the same call.
inline peers::PeerCall peer_call(const GroupStep& step, const peers::PeerGroup& peers, std::uint16_t signature,
                                 const peers::PartAddresses& places = {}) {
  return {.parcels = peers::parcels_of(step.call, peers.rank(), peers.size(), places),
          .dtype = step.reduction.dtype,
          .op = step.reduction.op,
          .divisor = step.reduction.divisor,
          .signature = signature,
          .overrange = step.reduction.overrange};
}

}  // namespace lanecast
