// SPDX-License-Identifier: Apache-2.0
// NCCL's names, by the functions of lanecast.h and gpu.h alone.
#include "lanecast/nccl.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/user_cache.h"
#include "capi/handles.h"

namespace {

constexpr char kOurs[] = "ranks of one MPI job, for Lanecast";

/// Of the last communicator that this thread could not make: there is no handle to keep it.
thread_local lanecastError_t failed_init{};

ncclResult_t refused(ncclResult_t result, const std::string& text) {
  lanecast::capi::failed(lanecastUsageError, text, &failed_init);
  return result;
}

ncclResult_t named(lanecastResult_t result) {
  switch (result) {
    case lanecastSuccess:
      return ncclSuccess;
    case lanecastUsageError:
      return ncclInvalidUsage;
    case lanecastTransportError:
      return ncclSystemError;
    case lanecastTimeoutError:
      return ncclRemoteError;
    case lanecastInternalError:
      break;
  }
  return ncclInternalError;
}

/// Numbers that do not exist become ones that lanecast.h refuses, with a text.
template <class To, std::size_t n>
To translated(const std::array<To, n>& table, unsigned number) {
  return number < n ? table[number] : static_cast<To>(INT32_MAX);
}

lanecastDataType_t type_of(ncclDataType_t type) {
  constexpr std::array kTypes{lanecastInt8,   lanecastUint8,   lanecastInt32,   lanecastUint32,  lanecastInt64,
                              lanecastUint64, lanecastFloat16, lanecastFloat32, lanecastFloat64, lanecastBfloat16};
  return translated(kTypes, static_cast<unsigned>(type));
}

lanecastRedOp_t op_of(ncclRedOp_t op) {
  return translated(std::array{lanecastSum, lanecastProd, lanecastMax, lanecastMin, lanecastAvg},
                    static_cast<unsigned>(op));
}

ncclResult_t enqueue(const lanecastCall_t& call, ncclComm_t comm, CUstream_st* stream) {
  return named(lanecastEnqueue(&call, -1, stream, comm));
}

/// Messages of this thread between ncclGroupStart and ncclGroupEnd, those of a communicator and a stream together.
struct NcclGroup {
  struct StreamMessages {
    ncclComm_t comm;
    CUstream_st* stream;
    std::vector<lanecastMessage_t> messages;
  };
  int depth = 0;
  std::vector<StreamMessages> batches;

  void add(const lanecastMessage_t& message, ncclComm_t comm, CUstream_st* stream) {
    const auto is_its = [&](const StreamMessages& batch) { return batch.comm == comm && batch.stream == stream; };
    auto batch = std::ranges::find_if(batches, is_its);
    if (batch == batches.end()) batch = batches.insert(batch, {comm, stream, {}});
    batch->messages.push_back(message);
  }

  /// The first error: the others move all the same, since their peers wait for them.
  ncclResult_t move() {
    ncclResult_t first = ncclSuccess;
    for (const StreamMessages& batch : std::exchange(batches, {})) {
      const ncclResult_t result =
          named(lanecastEnqueueBatch(batch.messages.data(), batch.messages.size(), -1, batch.stream, batch.comm));
      if (first == ncclSuccess) first = result;
    }
    return first;
  }
};
thread_local NcclGroup group;

const char nothing = 0;  // where a message of no elements lies

ncclResult_t exchange(const lanecastMessage_t& message, ncclComm_t comm, CUstream_st* stream) {
  if (!comm) return ncclInvalidArgument;
  group.add(message, comm, stream);
  return group.depth > 0 ? ncclSuccess : group.move();
}

int gather_of_one(const void* in, void* out, size_t bytes, void*) {
  std::memcpy(out, in, bytes);
  return 0;
}

ncclResult_t init_alone(ncclComm_t* comm, const lanecastConfig_t& config) {
  return named(lanecastCommInitAllGather(comm, 0, 1, gather_of_one, nullptr, &config));
}

/// NCCL's communicators are for the GPU that is current when they are made. Takes back one that can't have it.
ncclResult_t on_current_gpu(ncclComm_t* comm) {
  const lanecastResult_t result = lanecastCommSetDevice(*comm, -1);
  if (result == lanecastSuccess) return ncclSuccess;
  refused(named(result), lanecastGetLastError(*comm));
  lanecastCommDestroy(*comm);
  *comm = nullptr;
  return named(result);
}

/// NCCL's ranks need not have MPI's order.
ncclResult_t init_in_order(ncclComm_t* comm, int nranks, int rank, const lanecastConfig_t& config) {
  lanecastComm_t made = nullptr;
  const lanecastResult_t begun = lanecastCommInitMPI(&made, nullptr, &config);
  if (begun != lanecastSuccess) return named(begun);
  const std::unique_ptr<lanecastComm, decltype(&lanecastCommDestroy)> job(made, lanecastCommDestroy);
  int size = 0, own = -1;
  lanecastCommCount(made, &size);
  if (size != nranks)
    return refused(ncclInvalidUsage, "nranks: " + std::to_string(nranks) + ", and the MPI job has " +
                                         std::to_string(size) +
                                         "; make one of all ranks and split it by ncclCommSplit");
  const lanecastResult_t ordered = lanecastCommSplit(made, 0, rank, comm);
  if (ordered != lanecastSuccess) return refused(named(ordered), lanecastGetLastError(made));
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
  if (!comm) return refused(ncclInvalidArgument, "comm: null pointer");
  *comm = nullptr;
  if (std::memcmp(commId.internal, kOurs, sizeof kOurs) != 0)
    return refused(ncclInvalidArgument, "commId: not from this library's ncclGetUniqueId, or never received");
  if (nranks < 1 || rank < 0 || rank >= nranks)
    return refused(ncclInvalidArgument, "rank: " + std::to_string(rank) + " of " + std::to_string(nranks));
  const std::string cache = lanecast::user_cache("kernels");  // as Python's communicators: each user compiles once
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &failed_init;
  config.kernel_cache = cache.c_str();
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

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, const void* config) {
  if (config) return ncclInvalidArgument;
  const lanecastResult_t made = lanecastCommSplit(comm, color, key, newcomm);
  return made == lanecastSuccess && *newcomm ? on_current_gpu(newcomm) : named(made);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return named(lanecastCommSynchronize(comm)); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return named(lanecastCommDestroy(comm)); }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const lanecastResult_t result = lanecastCommAbort(comm, "ncclCommAbort");
  lanecastCommDestroy(comm);
  return named(result);
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return named(lanecastCommCount(comm, count)); }

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) { return named(lanecastCommUserRank(comm, rank)); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  lanecastResult_t met = lanecastSuccess;
  if (!asyncError) return ncclInvalidArgument;
  const lanecastResult_t result = lanecastCommGetAsyncError(comm, &met);
  *asyncError = named(met);
  return named(result);
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
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refused(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
  if (--group.depth > 0) return ncclSuccess;
  return group.move();
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  return exchange({sendbuff || count ? sendbuff : &nothing, nullptr, count, type_of(datatype), peer, 0}, comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  void* const target = recvbuff || count ? recvbuff : const_cast<char*>(&nothing);
  return exchange({nullptr, target, count, type_of(datatype), peer, 0}, comm, stream);
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue({lanecastCollAllReduce, sendbuff, recvbuff, count, nullptr, type_of(datatype), op_of(op), 0, nullptr},
                 comm, stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue(
      {lanecastCollAllGather, sendbuff, recvbuff, sendcount, nullptr, type_of(datatype), lanecastSum, 0, nullptr}, comm,
      stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, CUstream_st* stream) {
  return enqueue(
      {lanecastCollReduceScatter, sendbuff, recvbuff, recvcount, nullptr, type_of(datatype), op_of(op), 0, nullptr},
      comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, CUstream_st* stream) {
  return enqueue(
      {lanecastCollBroadcast, sendbuff, recvbuff, count, nullptr, type_of(datatype), lanecastSum, root, nullptr}, comm,
      stream);
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       CUstream_st* stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, CUstream_st* stream) {
  return enqueue({lanecastCollReduce, sendbuff, recvbuff, count, nullptr, type_of(datatype), op_of(op), root, nullptr},
                 comm, stream);
}
