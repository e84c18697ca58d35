// SPDX-License-Identifier: Apache-2.0
// The blocking collectives.
#include <optional>

#include "capi/call.h"

namespace lanecast::capi {
namespace {

lanecastResult_t run(const lanecastCall_t& call, lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) { comm->run(call_from(call, core)); });
}

lanecastResult_t run_v(const lanecastCall_t& call, lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) {
    require(call.counts, "counts", core);
    comm->run(call_from(call, core));
  });
}

/// The communicator's own text of errors is for one thread at a time.
template <class Run>
lanecastResult_t beside_others(double timeout_s, lanecastComm_t comm, lanecastError_t* error, const Run& run) {
  if (!comm) return lanecastUsageError;
  return guarded(error, [&] { run(*comm->core, timeout_s == 0 ? std::nullopt : std::optional(timeout_s)); });
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastExplain(const lanecastCall_t* call, lanecastComm_t comm, char* text, size_t bytes,
                                 size_t* length) {
  return guarded(comm, [&](const Communicator& core) {
    require(call, "call", core);
    if (bytes > 0) require(text, "text", core);
    const std::string whole = core.choosing().explain(call_from(*call, core)).str();
    if (bytes > 0) text[whole.copy(text, bytes - 1)] = '\0';
    if (length) *length = whole.size();
  });
}

lanecastResult_t lanecastRunBesideOthers(const lanecastCall_t* call, double timeout_s, lanecastComm_t comm,
                                         lanecastError_t* error) {
  return beside_others(timeout_s, comm, error, [&](Communicator& core, std::optional<double> timeout) {
    require(call, "call", core);
    comm->run(call_from(*call, core), BesideOthers{timeout});
  });
}

lanecastResult_t lanecastBarrierBesideOthers(double timeout_s, lanecastComm_t comm, lanecastError_t* error) {
  return beside_others(timeout_s, comm, error, [](Communicator& core, std::optional<double> timeout) {
    core.run(BarrierRequest{}, core.options().interrupt, BesideOthers{timeout});
  });
}

lanecastResult_t lanecastAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, lanecastDataType_t datatype,
                                   lanecastComm_t comm) {
  return run({lanecastCollAllGather, sendbuff, recvbuff, sendcount, nullptr, datatype, lanecastSum, 0, nullptr}, comm);
}

lanecastResult_t lanecastReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                       lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm) {
  return run({lanecastCollReduceScatter, sendbuff, recvbuff, recvcount, nullptr, datatype, op, 0, nullptr}, comm);
}

lanecastResult_t lanecastAllReduce(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                   lanecastRedOp_t op, lanecastComm_t comm) {
  return run({lanecastCollAllReduce, sendbuff, recvbuff, count, nullptr, datatype, op, 0, nullptr}, comm);
}

lanecastResult_t lanecastAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                    lanecastDataType_t datatype, lanecastComm_t comm) {
  return run_v({lanecastCollAllGather, sendbuff, recvbuff, 0, counts, datatype, lanecastSum, 0, nullptr}, comm);
}

lanecastResult_t lanecastReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                        lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm) {
  return run_v({lanecastCollReduceScatter, sendbuff, recvbuff, 0, counts, datatype, op, 0, nullptr}, comm);
}

lanecastResult_t lanecastBroadcast(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                   int root, lanecastComm_t comm) {
  return run({lanecastCollBroadcast, sendbuff, recvbuff, count, nullptr, datatype, lanecastSum, root, nullptr}, comm);
}

lanecastResult_t lanecastReduce(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                lanecastRedOp_t op, int root, lanecastComm_t comm) {
  return run({lanecastCollReduce, sendbuff, recvbuff, count, nullptr, datatype, op, root, nullptr}, comm);
}

lanecastResult_t lanecastGather(const void* sendbuff, void* recvbuff, size_t sendcount, lanecastDataType_t datatype,
                                int root, lanecastComm_t comm) {
  return run({lanecastCollGather, sendbuff, recvbuff, sendcount, nullptr, datatype, lanecastSum, root, nullptr}, comm);
}

lanecastResult_t lanecastScatter(const void* sendbuff, void* recvbuff, size_t recvcount, lanecastDataType_t datatype,
                                 int root, lanecastComm_t comm) {
  return run({lanecastCollScatter, sendbuff, recvbuff, recvcount, nullptr, datatype, lanecastSum, root, nullptr}, comm);
}

lanecastResult_t lanecastAllToAll(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                  lanecastComm_t comm) {
  return run({lanecastCollAllToAll, sendbuff, recvbuff, count, nullptr, datatype, lanecastSum, 0, nullptr}, comm);
}

lanecastResult_t lanecastGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                 lanecastDataType_t datatype, int root, lanecastComm_t comm) {
  return run_v({lanecastCollGather, sendbuff, recvbuff, 0, counts, datatype, lanecastSum, root, nullptr}, comm);
}

lanecastResult_t lanecastScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                  lanecastDataType_t datatype, int root, lanecastComm_t comm) {
  return run_v({lanecastCollScatter, sendbuff, recvbuff, 0, counts, datatype, lanecastSum, root, nullptr}, comm);
}

lanecastResult_t lanecastAllToAllV(const void* sendbuff, const size_t* sendcounts, void* recvbuff,
                                   const size_t* recvcounts, lanecastDataType_t datatype, lanecastComm_t comm) {
  return run_v({lanecastCollAllToAll, sendbuff, recvbuff, 0, sendcounts, datatype, lanecastSum, 0, recvcounts}, comm);
}
