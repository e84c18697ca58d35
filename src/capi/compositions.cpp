// SPDX-License-Identifier: Apache-2.0
// Collectives of one's own: composed on each rank, then compiled on a communicator.
#include "capi/call.h"

struct lanecastComposition {
  lanecast::Composition core;
};

namespace lanecast::capi {
namespace {

template <class T>
void require_pointer(const T* pointer, const char* argument) {
  if (!pointer) throw UsageError(std::string(argument) + ": null pointer");
}

std::vector<Composition::Parts> lists(const lanecastParts_t* given, int ranks) {
  std::vector<Composition::Parts> lists;
  for (int r = 0; r < ranks; ++r) {
    if (given[r].n > 0) require_pointer(given[r].parts, "parts");
    lists.emplace_back(given[r].parts, given[r].parts + given[r].n);
  }
  return lists;
}

std::vector<int> ranks_from(lanecastRanks_t given) {
  if (given.n > 0) require_pointer(given.ranks, "leaves");
  return {given.ranks, given.ranks + given.n};
}

Pieces pieces_from(const lanecastBlock_t* blocks, std::size_t n) {
  if (n > 0) require_pointer(blocks, "blocks");
  Pieces pieces;
  for (std::size_t k = 0; k < n; ++k) {
    const auto [part, cut_number, cuts] = blocks[k];
    if (cuts < 1 || cut_number < 0 || cut_number >= cuts)
      throw UsageError("block: cut " + std::to_string(cut_number) + " of " + std::to_string(cuts) + " does not exist");
    pieces.push_back(cut(whole(part), cut_number, cuts)[0]);
  }
  return pieces;
}

template <class Number>
Number enumerator(int given, int count, const char* name) {
  if (given < 0 || given >= count)
    throw UsageError(std::string(name) + ": there is none with the number " + std::to_string(given));
  return static_cast<Number>(given);
}

void apply(const lanecastKnobs_t& knobs, const Communicator& comm, ComposedCall& call) {
  if (knobs.size != sizeof knobs) refuse(comm, "knobs: start from LANECAST_KNOBS_INITIALIZER");
  if (knobs.hierarchy) call.shaping.factors.assign(knobs.hierarchy, knobs.hierarchy + knobs.levels);
  if (knobs.topology) call.shaping.hierarchy = Topology::parse(knobs.topology, comm.size());
  if (knobs.transports) call.transports = knobs.transports;
  call.shaping.stripe = knobs.stripe;
  call.shaping.ring = knobs.ring;
  call.chunks = knobs.chunks;
  if (knobs.verify >= 0) call.proven = knobs.verify != 0;
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastCompositionCreate(lanecastComposition_t* composition, int nranks,
                                           const lanecastParts_t* inputs, const lanecastParts_t* outputs,
                                           lanecastError_t* error) {
  return guarded(error, [&] {
    require_pointer(composition, "composition");
    require_pointer(inputs, "inputs");
    require_pointer(outputs, "outputs");
    *composition = new lanecastComposition{Composition(lists(inputs, nranks), lists(outputs, nranks))};
  });
}

lanecastResult_t lanecastCompositionOf(lanecastComposition_t* composition, lanecastCollective_t buffers, int nranks,
                                       int root, lanecastError_t* error) {
  return guarded(error, [&] {
    require_pointer(composition, "composition");
    const Kind kind = enumerator<Kind>(static_cast<int>(buffers), kKinds, "buffers");
    *composition = new lanecastComposition{Composition(Collective{kind, nranks, false, root, false, nullptr})};
  });
}

lanecastResult_t lanecastComposeMulticast(lanecastComposition_t composition, int root, lanecastRanks_t leaves,
                                          const lanecastBlock_t* blocks, size_t nblocks, lanecastError_t* error) {
  return guarded(error, [&] {
    require_pointer(composition, "composition");
    composition->core.multicast(root, ranks_from(leaves), pieces_from(blocks, nblocks));
  });
}

lanecastResult_t lanecastComposeReduce(lanecastComposition_t composition, lanecastRanks_t leaves, int root,
                                       const lanecastBlock_t* blocks, size_t nblocks, lanecastRedOp_t op,
                                       lanecastError_t* error) {
  return guarded(error, [&] {
    require_pointer(composition, "composition");
    const ReduceOp by = enumerator<ReduceOp>(static_cast<int>(op), kReduceOps, "op");
    composition->core.reduce(ranks_from(leaves), root, pieces_from(blocks, nblocks), by);
  });
}

lanecastResult_t lanecastComposeFence(lanecastComposition_t composition) {
  if (!composition) return lanecastUsageError;
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] { composition->core.fence(); });
}

lanecastResult_t lanecastCompositionFree(lanecastComposition_t composition) {
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] { delete composition; });
}

lanecastResult_t lanecastCompile(lanecastComposition_t composition, const void* sendbuff, void* recvbuff,
                                 const size_t* counts, lanecastDataType_t datatype, const lanecastKnobs_t* knobs,
                                 lanecastComm_t comm, lanecastPersistent_t* persistent) {
  return guarded(comm, [&](Communicator& core) {
    require(composition, "composition", core);
    require(persistent, "persistent", core);
    if (composition->core.parts() > 0) require(counts, "counts", core);
    ComposedCall call;
    call.composition = std::make_shared<const Composition>(composition->core);
    call.in = sendbuff;
    call.out = recvbuff;
    call.counts = {counts, static_cast<std::size_t>(composition->core.parts())};
    call.dtype = dtype_from(datatype, core);
    if (knobs) apply(*knobs, core, call);
    *persistent =
        new lanecastPersistent{std::make_unique<PersistentCall>(core, call), comm->error, core.options().interrupt};
  });
}
