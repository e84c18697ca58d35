// SPDX-License-Identifier: Apache-2.0
// A library's own collective as a plan of one step: MPI's, NCCL's, or that of our kernels among GPUs.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {

void library_all_gather(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  plan.group({Kind::all_gather, ranks, own});
}

void library_all_reduce(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces) {
  plan.group({Kind::all_reduce, ranks, {pieces}});
  plan.complete(pieces);
}

void library_broadcast(PlanWriter& plan, const Ranks& ranks, const PieceLists& own) {
  const auto brings = [](const Pieces& pieces) { return !pieces.empty(); };
  if (std::ranges::count_if(own, brings) != 1) return library_all_gather(plan, ranks, own);
  const auto root = std::ranges::find_if(own, brings);
  plan.group({Kind::broadcast, ranks, {*root}, static_cast<int>(root - own.begin())});
}

void library_scatter(PlanWriter& plan, const Ranks& ranks, int root, const PieceLists& own) {
  plan.group({Kind::scatter, ranks, own, root});
}

void library_all_to_all(PlanWriter& plan, const Ranks& ranks, const Parcels& parcels) {
  const int n = static_cast<int>(ranks.size());
  const int me = index_of(plan.rank(), ranks);
  PieceLists own;
  for (int to = 0; to < n; ++to) own.push_back(parcels(me, to));
  for (int from = 0; from < n; ++from) own.push_back(parcels(from, me));
  plan.group({Kind::all_to_all, ranks, std::move(own)});
}

}  // namespace lanecast
