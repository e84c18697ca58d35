// SPDX-License-Identifier: Apache-2.0
// NCCL's names: collectives, messages and groups, by lanecast.h and gpu.h.
#include <cstddef>
#include <string>

#include "capi/nccl_errors.h"
#include "capi/nccl_group.h"
#include "capi/nccl_names.h"
#include "lanecast/nccl.h"

namespace {

using namespace lanecast::capi;

/// In NCCL's words; a collective that adds nothing, or has no root, leaves those as they are.
struct NcclCall {
  const void* in;
  void* out;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op = ncclSum;
  int root = 0;
};

ncclResult_t enqueue(lanecastCollective_t what, const NcclCall& asked, ncclComm_t comm, CUstream_st* stream) {
  const lanecastCall_t call{.collective = what,
                            .sendbuff = asked.in,
                            .recvbuff = asked.out,
                            .count = asked.count,
                            .counts = nullptr,
                            .datatype = type_from_nccl(asked.type),
                            .op = op_from_nccl(asked.op),
                            .root = asked.root,
                            .recvcounts = nullptr};
  return nccl_result(lanecastEnqueue(&call, -1, stream, comm));
}

thread_local NcclGroup group;

ncclResult_t exchange(const lanecastMessage_t& message, ncclComm_t comm, CUstream_st* stream) {
  if (!comm) return ncclInvalidArgument;
  group.add(message, comm, stream);
  return group.is_open() ? ncclSuccess : group.move();
}

}  // namespace

void lanecast::capi::forget_messages(lanecastComm_t comm) { group.forget(comm); }

ncclResult_t ncclGroupStart() {
  group.start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (!group.is_open()) return refused(nullptr, ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
  return group.end() ? group.move() : ncclSuccess;
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  return refused(nullptr, ncclInvalidUsage,
                 "ncclGroupSimulateEnd: the collectives of the group have been made; measure one by ncclGroupEnd");
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  return exchange(nccl_send(sendbuff, count, datatype, peer), comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  return exchange(nccl_receive(recvbuff, count, datatype, peer), comm, stream);
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollAllReduce, {sendbuff, recvbuff, count, datatype, op}, comm, stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollAllGather, {sendbuff, recvbuff, sendcount, datatype}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollReduceScatter, {sendbuff, recvbuff, recvcount, datatype, op}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollBroadcast, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream);
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       CUstream_st* stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollReduce, {sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          CUstream_st* stream) {
  return enqueue(lanecastCollAllToAll, {sendbuff, recvbuff, count, datatype}, comm, stream);
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollGather, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream);
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, CUstream_st* stream) {
  return enqueue(lanecastCollScatter, {sendbuff, recvbuff, count, datatype, ncclSum, root}, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t comm) {
  return refused(comm, ncclInvalidUsage,
                 "ncclRedOpCreatePreMulSum: Lanecast has no operators of the program's; multiply before the call, and "
                 "take ncclSum or ncclAvg");
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return refused(comm, ncclInvalidArgument,
                 "op: " + std::to_string(op) + " is no operator of the program's, of which Lanecast has none");
}
