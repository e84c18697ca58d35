// SPDX-License-Identifier: Apache-2.0
// NCCL's names, by the functions of lanecast.h and gpu.h alone.
#include "lanecast/nccl.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "base/user_cache.h"
#include "capi/handles.h"
#include "capi/nccl_group.h"
#include "capi/nccl_names.h"

namespace {

using namespace lanecast::capi;

constexpr char kOurs[] = "ranks of one MPI job, for Lanecast";

/// Of the last communicator that this thread could not make: there is no handle to keep it.
thread_local lanecastError_t failed_init{};

ncclResult_t refused(ncclResult_t result, const std::string& text) {
  lanecast::capi::failed(lanecastUsageError, text, &failed_init);
  return result;
}

ncclResult_t enqueue(const lanecastCall_t& call, ncclComm_t comm, CUstream_st* stream) {
  return nccl_result(lanecastEnqueue(&call, -1, stream, comm));
}

thread_local NcclGroup group;

ncclResult_t exchange(const lanecastMessage_t& message, ncclComm_t comm, CUstream_st* stream) {
  if (!comm) return ncclInvalidArgument;
  group.add(message, comm, stream);
  return group.is_open() ? ncclSuccess : group.move();
}

int gather_of_one(const void* in, void* out, size_t bytes, void*) {
  std::memcpy(out, in, bytes);
  return 0;
}

ncclResult_t init_alone(ncclComm_t* comm, lanecastConfig_t config) {
  config.processes_per_gpu = 1;  // helpers are for the host's memory
  return nccl_result(lanecastCommInitAllGather(comm, 0, 1, gather_of_one, nullptr, &config));
}

/// NCCL's communicators are for the GPU that is current when they are made. Takes back one that can't have it.
ncclResult_t on_current_gpu(ncclComm_t* comm) {
  const lanecastResult_t result = lanecastCommSetDevice(*comm, -1);
  if (result == lanecastSuccess) return ncclSuccess;
  refused(nccl_result(result), lanecastGetLastError(*comm));
  lanecastCommDestroy(*comm);
  *comm = nullptr;
  return nccl_result(result);
}

/// NCCL's ranks need not have MPI's order.
ncclResult_t init_in_order(ncclComm_t* comm, int nranks, int rank, const lanecastConfig_t& config) {
  lanecastComm_t made = nullptr;
  const lanecastResult_t begun = lanecastCommInitMPI(&made, nullptr, &config);
  if (begun != lanecastSuccess) return nccl_result(begun);
  const std::unique_ptr<lanecastComm, decltype(&lanecastCommDestroy)> job(made, lanecastCommDestroy);
  int size = 0, own = -1;
  lanecastCommCount(made, &size);
  if (size != nranks)
    return refused(ncclInvalidUsage, "nranks: " + std::to_string(nranks) + ", and the MPI job has " +
                                         std::to_string(size) +
                                         "; make one of all ranks and split it by ncclCommSplit");
  const lanecastResult_t ordered = lanecastCommSplit(made, 0, rank, comm);
  if (ordered != lanecastSuccess) return refused(nccl_result(ordered), lanecastGetLastError(made));
  lanecastCommUserRank(*comm, &own);
  if (own == rank) return ncclSuccess;
  lanecastCommDestroy(*comm);
  *comm = nullptr;
  return refused(ncclInvalidArgument, "rank: " + std::to_string(rank) + " is given to two ranks");
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  if (!uniqueId) return ncclInvalidArgument;
  *uniqueId = {};
  std::memcpy(uniqueId->internal, kOurs, sizeof kOurs);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return ncclCommInitRankConfig(comm, nranks, commId, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* given) {
  if (!comm) return refused(ncclInvalidArgument, "comm: null pointer");
  *comm = nullptr;
  if (std::memcmp(commId.internal, kOurs, sizeof kOurs) != 0)
    return refused(ncclInvalidArgument, "commId: not from this library's ncclGetUniqueId, or never received");
  if (nranks < 1 || rank < 0 || rank >= nranks)
    return refused(ncclInvalidArgument, "rank: " + std::to_string(rank) + " of " + std::to_string(nranks));
  if (given && given->blocking == 0)
    return refused(ncclInvalidUsage, "config: blocking is 0; calls of this library block until they are enqueued");
  const std::string cache = lanecast::user_cache("kernels");  // as Python's communicators: each user compiles once
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &failed_init;
  config.kernel_cache = cache.c_str();
  if (given && given->maxCTAs != NCCL_CONFIG_UNDEF_INT) config.max_ctas = given->maxCTAs;
  const ncclResult_t made = nranks == 1 ? init_alone(comm, config) : init_in_order(comm, nranks, rank, config);
  return made == ncclSuccess ? on_current_gpu(comm) : made;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int*) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  if (ndev == 1) return ncclCommInitRank(comm, 1, id, 0);
  return refused(ncclInvalidUsage,
                 "ndev: " + std::to_string(ndev) + "; a process has one GPU here: start one for each");
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  if (config) return ncclInvalidArgument;
  const lanecastResult_t made = lanecastCommSplit(comm, color, key, newcomm);
  return made == lanecastSuccess && *newcomm ? on_current_gpu(newcomm) : nccl_result(made);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return nccl_result(lanecastCommSynchronize(comm)); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return nccl_result(lanecastCommDestroy(comm)); }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const lanecastResult_t result = lanecastCommAbort(comm, "ncclCommAbort");
  lanecastCommDestroy(comm);
  return nccl_result(result);
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return nccl_result(lanecastCommCount(comm, count)); }

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) { return nccl_result(lanecastCommUserRank(comm, rank)); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  lanecastResult_t met = lanecastSuccess;
  if (!asyncError) return ncclInvalidArgument;
  const lanecastResult_t result = lanecastCommGetAsyncError(comm, &met);
  *asyncError = nccl_result(met);
  return nccl_result(result);
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr std::array kMeanings{lanecastSuccess,       lanecastTransportError, lanecastTransportError,
                                 lanecastInternalError, lanecastUsageError,     lanecastUsageError,
                                 lanecastTimeoutError};
  const auto number = static_cast<unsigned>(result);
  return number < kMeanings.size() ? lanecastGetErrorString(kMeanings[number]) : "not an ncclResult_t";
}

const char* ncclGetLastError(ncclComm_t comm) { return comm ? lanecastGetLastError(comm) : failed_init.text; }

ncclResult_t ncclGroupStart() {
  group.start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (!group.is_open()) return refused(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
  return group.end() ? group.move() : ncclSuccess;
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
