// SPDX-License-Identifier: Apache-2.0
// Collectives of one's own: composed on each rank, then compiled on a communicator.
#include "capi/call.h"
#include "runtime/communicator/device_work.h"

struct lanecastComposition {
  lanecast::Composition core;
};

struct lanecastCompiled {
  lanecast::ComposedOnGpu core;
  int device;
  lanecastComm_t comm;
  std::shared_ptr<lanecast::DeviceWork> last;  // start
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

/// What C says of a composition that is to be compiled.
struct AskedComposition {
  lanecastComposition_t composition;
  const void* in;
  void* out;
  const std::size_t* counts;
  lanecastDataType_t datatype;
  const lanecastKnobs_t* knobs;
};

/// Refers to the counts.
ComposedCall composed_call_from(const AskedComposition& asked, const Communicator& comm) {
  require(asked.composition, "composition", comm);
  const Composition& composition = asked.composition->core;
  if (composition.parts() > 0) require(asked.counts, "counts", comm);
  ComposedCall call;
  call.composition = std::make_shared<const Composition>(composition);
  call.in = asked.in;
  call.out = asked.out;
  call.counts = {asked.counts, static_cast<std::size_t>(composition.parts())};
  call.dtype = dtype_from(asked.datatype, comm);
  if (asked.knobs) apply(*asked.knobs, comm, call);
  return call;
}

std::shared_ptr<DeviceWork> enqueue(const lanecastCompiled& compiled, const void* in, void* out,
                                    const OnStream& where) {
  ComposedOnGpu call = compiled.core;
  call.in = in;
  call.out = out;
  return compiled.comm->core->enqueue(call, where);
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
    require(persistent, "persistent", core);
    const ComposedCall call = composed_call_from({composition, sendbuff, recvbuff, counts, datatype, knobs}, core);
    *persistent =
        new lanecastPersistent{std::make_unique<PersistentCall>(core, call), comm->error, core.options().interrupt};
  });
}

lanecastResult_t lanecastCompileOnDevice(lanecastComposition_t composition, const void* sendbuff, void* recvbuff,
                                         const size_t* counts, lanecastDataType_t datatype,
                                         const lanecastKnobs_t* knobs, int device, lanecastComm_t comm,
                                         lanecastCompiled_t* compiled) {
  return guarded(comm, [&](Communicator& core) {
    require(compiled, "compiled", core);
    if (device < -1) refuse(core, "device: " + std::to_string(device) + " is no GPU's number");
    const ComposedCall call = composed_call_from({composition, sendbuff, recvbuff, counts, datatype, knobs}, core);
    *compiled = new lanecastCompiled{core.gpu().compile(call, device), device, comm, nullptr};
  });
}

lanecastResult_t lanecastCompiledEnqueue(const void* sendbuff, void* recvbuff, lanecastCompiled_t compiled,
                                         void* stream) {
  if (!compiled) return lanecastUsageError;
  return guarded(compiled->comm->error.get(),
                 [&] { enqueue(*compiled, sendbuff, recvbuff, {.stream = stream, .device = compiled->device}); });
}

lanecastResult_t lanecastCompiledStart(const void* sendbuff, void* recvbuff, lanecastCompiled_t compiled,
                                       void* stream) {
  if (!compiled) return lanecastUsageError;
  return guarded(compiled->comm->error.get(), [&] {
    compiled->last =
        enqueue(*compiled, sendbuff, recvbuff, {.stream = stream, .device = compiled->device, .apart = true});
  });
}

lanecastResult_t lanecastCompiledWait(lanecastCompiled_t compiled, void* stream) {
  if (!compiled) return lanecastUsageError;
  return guarded(compiled->comm->error.get(), [&] {
    if (compiled->last) compiled->last->order(stream);
  });
}

lanecastResult_t lanecastCompiledFree(lanecastCompiled_t compiled) {
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] { delete compiled; });
}
