// SPDX-License-Identifier: Apache-2.0
// A reduce along a chain that ends with the root: each rank adds what it brings to what has come, and passes the sum
// on. The order of additions is that of the chain, and sums on the way are rounded to the type.
#pragma once

#include "device/gpu/kernels/chain.cuh"

namespace lanecast::gpu {

class SummedChain : public BlockChain<kMovers> {
 public:
  __device__ SummedChain(const Exchange& x, const Begun& begun) : BlockChain(x, begun, (x.root + 1) % x.ranks) {}

  template <class Format>
  __device__ void pass(Team team, u32 round) const {
    const u64 bytes = piece(round), own = x_.source[x_.rank] + offset(round);
    if (bytes == 0) return;
    if (is_first()) return copy_bytes(team, slot_there(round), own, bytes);
    ReductionArguments r;
    r.bytes = bytes;
    r.op = x_.op;
    r.divisor = 1;
    r.overrange = 0;
    r.sources = 2;
    r.source[0] = slot_here(round);
    r.source[1] = own;
    r.targets = 1;
    r.target[0] = is_last() ? x_.target[x_.rank] + offset(round) : slot_there(round);
    reduce_bytes<Format>(team, r);
  }
};

template <class Format>
__device__ inline void summed_chain(const Exchange& x) {
  along_chain<SummedChain>(
      x, [](const SummedChain& block, Team team, u32 round) { block.template pass<Format>(team, round); });
}

}  // namespace lanecast::gpu
