// SPDX-License-Identifier: Apache-2.0
// The transport's own collective as a plan of one step: MPI's, or a vendor library's.
#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void native_all_gather(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  plan.group(GroupKind::all_gather, ranks, own);
}

void native_all_reduce(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces) {
  plan.group(GroupKind::all_reduce, ranks, PieceLists{pieces});
  plan.complete(pieces);
}

}  // namespace lanecast
