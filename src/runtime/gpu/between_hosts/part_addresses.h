// SPDX-License-Identifier: Apache-2.0
// Where a group's members have their parts of a call's buffers on this rank, so that peer memory's kernels take them
// from there and put them there, and nothing is packed for them.
#pragma once

#include "peers/parcels.h"
#include "runtime/bound/group_step.h"

namespace lanecast {

/// None on a side that has no such parts, or where one of them lies in pieces, or not at a multiple of 16 bytes, where
/// copies that pack it cost less than a kernel that takes single elements.
peers::PartAddresses part_addresses(const GroupStep& step);

/// Does a call whose buffers overlap do so in the way that it may: a gathered part is where it was before, or a reduced
/// one where this rank brought it? rank: of the communicator.
bool is_in_place(const GroupStep& step, int rank, const peers::PartAddresses& places);

}  // namespace lanecast
