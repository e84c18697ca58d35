// SPDX-License-Identifier: Apache-2.0
#include "composed.h"

#include <numeric>
#include <string>

#include "base/error.h"

namespace lanecast::simulator {

std::shared_ptr<const Composition> compose(Kind kind, int ranks) {
  if (kind != Kind::all_gather && kind != Kind::reduce_scatter && kind != Kind::all_reduce)
    throw UsageError("'composed' is simulated of all_gather, reduce_scatter and all_reduce, not of " +
                     std::string(name_of(kind)));
  const Collective what{kind, ranks, /*in_place=*/false, /*root=*/0, /*reproducible=*/false};
  const auto made = std::make_shared<Composition>(what);
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  // Of an all-reduce, each rank's part of the one vector.
  const auto share = [&](int rank) { return kind == Kind::all_reduce ? cut(whole(0), rank, ranks) : whole(rank); };
  if (what.reduces()) {
    for (int rank = 0; rank < ranks; ++rank) made->reduce(all, rank, share(rank), ReduceOp::sum);
    made->fence();
  }
  if (kind != Kind::reduce_scatter)
    for (int rank = 0; rank < ranks; ++rank) made->multicast(rank, all, share(rank));
  return made;
}

}  // namespace lanecast::simulator
