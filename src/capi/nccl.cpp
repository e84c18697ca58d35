// SPDX-License-Identifier: Apache-2.0
// NCCL's names: communicators, by the functions of lanecast.h and gpu.h.
#include "lanecast/nccl.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "base/user_cache.h"
#include "capi/nccl_errors.h"
#include "capi/nccl_names.h"

namespace {

using namespace lanecast::capi;

constexpr char kOurs[] = "ranks of one MPI job, for Lanecast";
constexpr unsigned int kMagic = 0xcafebeef;

/// Nothing else of the struct has a meaning here.
struct ConfigRead {
  int max_ctas = 0;  // 0: as before
  std::string refusal;
};

/// A program that was built against an older header has a shorter struct.
ConfigRead read_config(const ncclConfig_t* config) {
  if (!config) return {};
  if (config->magic != kMagic || config->size < offsetof(ncclConfig_t, cgaClusterSize))
    return {0, "config: start from NCCL_CONFIG_INITIALIZER"};
  if (config->blocking == 0) return {0, "config: blocking is 0; calls of this library block until they are enqueued"};
  if (config->size < offsetof(ncclConfig_t, netName) || config->maxCTAs == NCCL_CONFIG_UNDEF_INT) return {};
  if (config->maxCTAs < 1) return {0, "config: maxCTAs is " + std::to_string(config->maxCTAs)};
  return {config->maxCTAs, {}};
}

bool is_ours(const ncclUniqueId& id) { return std::memcmp(id.internal, kOurs, sizeof kOurs) == 0; }

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
  refused(nullptr, nccl_result(result), lanecastGetLastError(*comm));
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
    return refused(nullptr, ncclInvalidUsage,
                   "nranks: " + std::to_string(nranks) + ", and the MPI job has " + std::to_string(size) +
                       "; make one of all ranks and split it by ncclCommSplit");
  const lanecastResult_t ordered = lanecastCommSplit(made, 0, rank, comm);
  if (ordered != lanecastSuccess) return refused(nullptr, nccl_result(ordered), lanecastGetLastError(made));
  lanecastCommUserRank(*comm, &own);
  if (own == rank) return ncclSuccess;
  lanecastCommDestroy(*comm);
  *comm = nullptr;
  return refused(nullptr, ncclInvalidArgument, "rank: " + std::to_string(rank) + " is given to two ranks");
}

}  // namespace

lanecastError_t& lanecast::capi::error_of_thread() {
  static thread_local lanecastError_t error{};
  return error;
}

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
  return ncclCommInitRankScalable(comm, nranks, rank, 1, &commId, given);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int nId, ncclUniqueId* commIds,
                                      ncclConfig_t* given) {
  if (!comm) return refused(nullptr, ncclInvalidArgument, "comm: null pointer");
  *comm = nullptr;
  if (nId < 1 || !commIds || !std::ranges::all_of(std::span(commIds, static_cast<std::size_t>(nId)), is_ours))
    return refused(nullptr, ncclInvalidArgument, "commId: not from this library's ncclGetUniqueId, or never received");
  if (nranks < 1 || rank < 0 || rank >= nranks)
    return refused(nullptr, ncclInvalidArgument, "rank: " + std::to_string(rank) + " of " + std::to_string(nranks));
  const ConfigRead read = read_config(given);
  if (!read.refusal.empty()) return refused(nullptr, ncclInvalidUsage, read.refusal);
  const std::string cache = lanecast::user_cache("kernels");  // as Python's communicators: each user compiles once
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error_of_thread();
  config.kernel_cache = cache.c_str();
  config.max_ctas = read.max_ctas;
  const ncclResult_t made = nranks == 1 ? init_alone(comm, config) : init_in_order(comm, nranks, rank, config);
  return made == ncclSuccess ? on_current_gpu(comm) : made;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int*) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  if (ndev == 1) return ncclCommInitRank(comm, 1, id, 0);
  return refused(nullptr, ncclInvalidUsage,
                 "ndev: " + std::to_string(ndev) + "; a process has one GPU here: start one for each");
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  const ConfigRead read = read_config(config);
  if (!read.refusal.empty()) return refused(comm, ncclInvalidUsage, read.refusal);
  const lanecastResult_t made = split(comm, color, key, read.max_ctas, newcomm);
  return made == lanecastSuccess && *newcomm ? on_current_gpu(newcomm) : nccl_result(made);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int*, int, ncclComm_t*, ncclConfig_t*, int) {
  return refused(comm, ncclInvalidUsage,
                 "ncclCommShrink: the ranks that are left out take no part in it, and Lanecast's splits need all; "
                 "use ncclCommSplit, with NCCL_SPLIT_NOCOLOR for those");
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return nccl_result(lanecastCommSynchronize(comm)); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return nccl_result(lanecastCommDestroy(comm)); }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const lanecastResult_t result = lanecastCommAbort(comm, "ncclCommAbort");
  ncclCommDestroy(comm);
  return nccl_result(result);
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return nccl_result(lanecastCommCount(comm, count)); }

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) { return nccl_result(lanecastCommUserRank(comm, rank)); }

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) { return nccl_result(lanecastCommGetDevice(comm, device)); }

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

const char* ncclGetLastError(ncclComm_t comm) { return comm ? lanecastGetLastError(comm) : error_of_thread().text; }
