// SPDX-License-Identifier: Apache-2.0
// The collectives, blocking and started: a lanecast::Call from C's arguments.
#include <string>

#include "capi/handles.h"

namespace lanecast::capi {
namespace {

struct Buffers {
  const void* send;
  void* receive;
};

/// Elements of each part: one number, or one per rank.
struct Counts {
  std::size_t each = 0;
  const std::size_t* of_rank = nullptr;
  bool differ = false;
};
Counts all_alike(std::size_t count) { return {count, nullptr, false}; }
Counts per_rank(const std::size_t* counts) { return {0, counts, true}; }

struct Elements {
  lanecastDataType_t datatype;
  lanecastRedOp_t op = lanecastSum;
};

Call call_from(Kind kind, const Buffers& buffers, const Counts& counts, const Elements& elements,
               const Communicator& comm) {
  const DType dtype = dtype_from(elements.datatype, comm);
  const auto op = static_cast<unsigned>(elements.op);
  if (op >= kReduceOps) refuse(comm, "op: there is none with the number " + std::to_string(op));
  Call call;
  call.kind = kind;
  call.in = buffers.send;
  call.out = buffers.receive;
  call.count = counts.each;
  call.dtype = dtype;
  call.op = static_cast<ReduceOp>(op);
  if (counts.differ) {
    if (!counts.of_rank) refuse(comm, "counts: null pointer");
    call.counts = {counts.of_rank, static_cast<std::size_t>(comm.size())};
    call.count = counts.of_rank[comm.rank()];
  }
  return call;
}

lanecastResult_t run(Kind kind, const Buffers& buffers, const Counts& counts, const Elements& elements,
                     lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) { core.run(call_from(kind, buffers, counts, elements, core)); });
}

lanecastResult_t start(Kind kind, const Buffers& buffers, const Counts& counts, const Elements& elements,
                       const Target& target) {
  return start(target,
               [&](Communicator& core) { return core.start(call_from(kind, buffers, counts, elements, core)); });
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, lanecastDataType_t datatype,
                                   lanecastComm_t comm) {
  return run(Kind::all_gather, {sendbuff, recvbuff}, all_alike(sendcount), {datatype}, comm);
}

lanecastResult_t lanecastReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                       lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm) {
  return run(Kind::reduce_scatter, {sendbuff, recvbuff}, all_alike(recvcount), {datatype, op}, comm);
}

lanecastResult_t lanecastAllReduce(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                   lanecastRedOp_t op, lanecastComm_t comm) {
  return run(Kind::all_reduce, {sendbuff, recvbuff}, all_alike(count), {datatype, op}, comm);
}

lanecastResult_t lanecastAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                    lanecastDataType_t datatype, lanecastComm_t comm) {
  return run(Kind::all_gather, {sendbuff, recvbuff}, per_rank(counts), {datatype}, comm);
}

lanecastResult_t lanecastReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                        lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm) {
  return run(Kind::reduce_scatter, {sendbuff, recvbuff}, per_rank(counts), {datatype, op}, comm);
}

lanecastResult_t lanecastAllGatherStart(const void* sendbuff, void* recvbuff, size_t sendcount,
                                        lanecastDataType_t datatype, lanecastComm_t comm, lanecastWork_t* work) {
  return start(Kind::all_gather, {sendbuff, recvbuff}, all_alike(sendcount), {datatype}, {comm, work});
}

lanecastResult_t lanecastReduceScatterStart(const void* sendbuff, void* recvbuff, size_t recvcount,
                                            lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm,
                                            lanecastWork_t* work) {
  return start(Kind::reduce_scatter, {sendbuff, recvbuff}, all_alike(recvcount), {datatype, op}, {comm, work});
}

lanecastResult_t lanecastAllReduceStart(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                        lanecastRedOp_t op, lanecastComm_t comm, lanecastWork_t* work) {
  return start(Kind::all_reduce, {sendbuff, recvbuff}, all_alike(count), {datatype, op}, {comm, work});
}

lanecastResult_t lanecastAllGatherVStart(const void* sendbuff, void* recvbuff, const size_t* counts,
                                         lanecastDataType_t datatype, lanecastComm_t comm, lanecastWork_t* work) {
  return start(Kind::all_gather, {sendbuff, recvbuff}, per_rank(counts), {datatype}, {comm, work});
}

lanecastResult_t lanecastReduceScatterVStart(const void* sendbuff, void* recvbuff, const size_t* counts,
                                             lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm,
                                             lanecastWork_t* work) {
  return start(Kind::reduce_scatter, {sendbuff, recvbuff}, per_rank(counts), {datatype, op}, {comm, work});
}

lanecastResult_t lanecastPersistentInit(const lanecastCall_t* call, lanecastComm_t comm,
                                        lanecastPersistent_t* persistent) {
  return guarded(comm, [&](Communicator& core) {
    if (!call) refuse(core, "call: null pointer");
    if (!persistent) refuse(core, "persistent: null pointer");
    const auto collective = static_cast<unsigned>(call->collective);
    if (collective > lanecastCollAllReduce)
      refuse(core, "collective: there is none with the number " + std::to_string(collective));
    const Counts counts = call->counts ? per_rank(call->counts) : all_alike(call->count);
    const Call bound = call_from(static_cast<Kind>(collective), {call->sendbuff, call->recvbuff}, counts,
                                 {call->datatype, call->op}, core);
    *persistent = new lanecastPersistent{std::make_unique<PersistentCall>(core, bound), comm->error};
  });
}
