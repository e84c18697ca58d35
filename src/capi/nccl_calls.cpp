// SPDX-License-Identifier: Apache-2.0
// NCCL's names: collectives, messages and groups, by lanecast.h and gpu.h.
#include <string>

#include "capi/nccl_errors.h"
#include "capi/nccl_group.h"
#include "capi/nccl_names.h"
#include "lanecast/nccl.h"

namespace {

using namespace lanecast::capi;

ncclResult_t enqueue(const lanecastCall_t& call, ncclComm_t comm, CUstream_st* stream) {
  return nccl_result(lanecastEnqueue(&call, -1, stream, comm));
}

thread_local NcclGroup group;

ncclResult_t exchange(const lanecastMessage_t& message, ncclComm_t comm, CUstream_st* stream) {
  if (!comm) return ncclInvalidArgument;
  group.add(message, comm, stream);
  return group.is_open() ? ncclSuccess : group.move();
}

}  // namespace

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
  return enqueue({lanecastCollAllReduce, sendbuff, recvbuff, count, nullptr, type_from_nccl(datatype), op_from_nccl(op),
                  0, nullptr},
                 comm, stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue({lanecastCollAllGather, sendbuff, recvbuff, sendcount, nullptr, type_from_nccl(datatype), lanecastSum,
                  0, nullptr},
                 comm, stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, CUstream_st* stream) {
  return enqueue({lanecastCollReduceScatter, sendbuff, recvbuff, recvcount, nullptr, type_from_nccl(datatype),
                  op_from_nccl(op), 0, nullptr},
                 comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue(
      {lanecastCollBroadcast, sendbuff, recvbuff, count, nullptr, type_from_nccl(datatype), lanecastSum, root, nullptr},
      comm, stream);
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       CUstream_st* stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, CUstream_st* stream) {
  return enqueue({lanecastCollReduce, sendbuff, recvbuff, count, nullptr, type_from_nccl(datatype), op_from_nccl(op),
                  root, nullptr},
                 comm, stream);
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          CUstream_st* stream) {
  return enqueue(
      {lanecastCollAllToAll, sendbuff, recvbuff, count, nullptr, type_from_nccl(datatype), lanecastSum, 0, nullptr},
      comm, stream);
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, CUstream_st* stream) {
  return enqueue(
      {lanecastCollGather, sendbuff, recvbuff, count, nullptr, type_from_nccl(datatype), lanecastSum, root, nullptr},
      comm, stream);
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, CUstream_st* stream) {
  return enqueue(
      {lanecastCollScatter, sendbuff, recvbuff, count, nullptr, type_from_nccl(datatype), lanecastSum, root, nullptr},
      comm, stream);
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
