// SPDX-License-Identifier: Apache-2.0
// NCCL, or AMD's RCCL, opened when the program runs: its calls as this library uses them, without a header.
#pragma once

#include <climits>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "device/gpu/driver.h"

namespace lanecast::gpu {

// By the names of nccl.h, from nccl on.
struct NcclUniqueId {
  char bytes[128];
};
using NcclComm = struct ncclComm*;
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclUint8 = 1;  // of what is only moved

/// As version 2.17 knows it; later ones take what they have more at its default. INT_MIN: left at its default.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

class Nccl {
  SharedLibrary library_;

 public:
  /// folders: looked in before the loader's path. Throws UsageError that says what is missing and what to do.
  static std::shared_ptr<const Nccl> open(const std::vector<std::string>& folders);
  explicit Nccl(SharedLibrary library) : library_(std::move(library)) {}
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  const std::string& path() const { return library_.path(); }
  int version() const;  // 22809 is 2.28.9

  int (*const GetVersion)(int*) = library_.required("ncclGetVersion");
  int (*const GetUniqueId)(NcclUniqueId*) = library_.required("ncclGetUniqueId");
  int (*const CommInitRankConfig)(NcclComm*, int size, NcclUniqueId, int rank,
                                  NcclConfig*) = library_.required("ncclCommInitRankConfig");
  int (*const CommFinalize)(NcclComm) = library_.required("ncclCommFinalize");
  int (*const CommDestroy)(NcclComm) = library_.required("ncclCommDestroy");
  int (*const CommAbort)(NcclComm) = library_.required("ncclCommAbort");
  int (*const CommGetAsyncError)(NcclComm, int*) = library_.required("ncclCommGetAsyncError");
  const char* (*const GetErrorString)(int) = library_.required("ncclGetErrorString");
  const char* (*const GetLastError)(NcclComm) = library_.required("ncclGetLastError");

  int (*const AllReduce)(const void* in, void* out, std::size_t count, int dtype, int op, NcclComm,
                         Stream) = library_.required("ncclAllReduce");
  int (*const Broadcast)(const void* in, void* out, std::size_t count, int dtype, int root, NcclComm,
                         Stream) = library_.required("ncclBroadcast");
  int (*const Reduce)(const void* in, void* out, std::size_t count, int dtype, int op, int root, NcclComm,
                      Stream) = library_.required("ncclReduce");
  int (*const AllGather)(const void* in, void* out, std::size_t own_count, int dtype, NcclComm,
                         Stream) = library_.required("ncclAllGather");
  // Of several messages: between GroupStart() and GroupEnd().
  int (*const GroupStart)() = library_.required("ncclGroupStart");
  int (*const GroupEnd)() = library_.required("ncclGroupEnd");
  int (*const Send)(const void* in, std::size_t count, int dtype, int peer, NcclComm,
                    Stream) = library_.required("ncclSend");
  int (*const Recv)(void* out, std::size_t count, int dtype, int peer, NcclComm,
                    Stream) = library_.required("ncclRecv");
  int (*const ReduceScatter)(const void* in, void* out, std::size_t own_count, int dtype, int op, NcclComm,
                             Stream) = library_.required("ncclReduceScatter");
};

/// Of ncclGetVersion's code: "2.28.9" of 22809.
std::string text_of_nccl_version(int code);

struct NcclLibrary {
  std::string path;
  std::string version;  // "2.28.9"
};

/// Which would be used. Throws UsageError like Nccl::open().
NcclLibrary find_nccl(const std::vector<std::string>& folders);

}  // namespace lanecast::gpu
