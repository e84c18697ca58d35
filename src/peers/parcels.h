// SPDX-License-Identifier: Apache-2.0
// A collective as messages: what one member of a group sends to each of the others, and what it gets from each. To
// peer memory all eight collectives are the same: messages that are copied, or reduced, where they arrive.
#pragma once

#include <vector>

#include "device/gpu/driver.h"
#include "transport/groups.h"

namespace lanecast::peers {

struct Parcel {
  gpu::Address at = 0;
  std::size_t bytes = 0;
};

struct Parcels {
  std::vector<Parcel> send;     // to each member; to itself: what it brings
  std::vector<Parcel> receive;  // from each member; all the same where they are reduced
  bool multicast = false;       // what is sent is the same for all
  bool reduces = false;
  int root = -1;                  // whose message all get, or who gets the sum, if it is one
  bool own_counts = false;        // of a message only its two members know the length
  std::size_t largest_bytes = 0;  // of any two members' message; where they do not all know it: more than any memory
};

/// Where each member's part of the input and the output lies, of the kinds that have such parts. Empty: one behind the
/// other from the call's addresses on.
struct PartAddresses {
  std::vector<gpu::Address> in, out;
};

/// Where a broadcast's vector lies in the end at a member that sends or gets it as `whole`: there, but at a root that
/// copies it.
inline Parcel kept_of(const Parcels& broadcast, const Parcel& whole) {
  const Parcel& kept = broadcast.receive[broadcast.root];
  return kept.at == 0 ? whole : kept;
}

/// me: this member. The call's addresses are those of its device.
Parcels parcels_of(const GroupCall& call, int me, int members, const PartAddresses& addresses = {});

}  // namespace lanecast::peers
