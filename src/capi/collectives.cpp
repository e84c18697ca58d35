// SPDX-License-Identifier: Apache-2.0
// The collectives, blocking and started: a lanecast::Call from C's arguments.
#include <string>

#include "capi/handles.h"

namespace lanecast::capi {
namespace {

[[noreturn]] void refuse(const Communicator& comm, const std::string& what) {
  throw UsageError("rank " + std::to_string(comm.rank()) + ": " + what);
}

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
  // C lets any number pass for an enumerator; the casts keep the compiler from assuming otherwise.
  const auto datatype = static_cast<unsigned>(elements.datatype), op = static_cast<unsigned>(elements.op);
  if (datatype >= kDTypes) refuse(comm, "datatype: there is none with the number " + std::to_string(datatype));
  if (op >= kReduceOps) refuse(comm, "op: there is none with the number " + std::to_string(op));
  Call call;
  call.kind = kind;
  call.in = buffers.send;
  call.out = buffers.receive;
  call.count = counts.each;
  call.dtype = static_cast<DType>(datatype);
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

/// Where a started call goes and what becomes of it.
struct Target {
  lanecastComm_t comm;
  lanecastWork_t* work;
};

lanecastResult_t start(Kind kind, const Buffers& buffers, const Counts& counts, const Elements& elements,
                       const Target& target) {
  return guarded(target.comm, [&](Communicator& core) {
    if (!target.work) refuse(core, "work: null pointer");
    auto work = std::make_unique<lanecastWork>();
    work->error = target.comm->error;
    work->core = core.start(call_from(kind, buffers, counts, elements, core));
    *target.work = work.release();
  });
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

lanecastResult_t lanecastWait(lanecastWork_t work) {
  if (!work) return lanecastUsageError;
  const std::unique_ptr<lanecastWork> owned(work);
  return guarded(owned->error.get(), [&] { Communicator::wait(*owned->core); });
}

lanecastResult_t lanecastTest(lanecastWork_t work, int* done) {
  if (!work || !done) return lanecastUsageError;
  return guarded(work->error.get(), [&] { *done = work->core->done() ? 1 : 0; });
}
