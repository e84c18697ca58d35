// SPDX-License-Identifier: Apache-2.0
// Ranks that call NCCL's collectives together. Nothing here waits without asking its owner whether to go on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/bootstrap.h"
#include "base/dtype.h"
#include "base/kind.h"
#include "device/gpu/device.h"
#include "device/gpu/nccl.h"

namespace lanecast::nccl {

/// A collective of NCCL's: `count` elements of what one rank brings to an all-gather or keeps of a reduce-scatter, else
/// of all.
struct NcclCollective {
  Kind kind{};
  DType dtype{};
  ReduceOp op{};
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  int root = 0;
};

/// What of a collective NCCL has not, or has with results that differ from our kernels': "float32 min"; empty: nothing.
std::string missing(Kind kind, DType dtype, ReduceOp op);

struct Options {
  int max_ctas = 0;            // 0: as many as NCCL takes
  double close_timeout_s = 0;  // for the last messages, where the other ranks are late
  /// Asked while NCCL waits for other ranks, with the seconds since; throws to give up.
  std::function<void(double waited_s)> keep_waiting;
};

class NcclCommunicator {
 public:
  /// Collective over the ranks of `bootstrap`, on the thread's device. Throws UsageError on all ranks where one has no
  /// usable NCCL.
  NcclCommunicator(std::shared_ptr<const gpu::Device> device, const Bootstrap& bootstrap,
                   const std::vector<std::string>& library_folders, Options options);
  /// What is enqueued has run. Waits for NCCL's threads, which may wait for those of the host's other ranks.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// In the order of the stream. The first ones connect the ranks, and return when all have called.
  void enqueue(const NcclCollective& call, gpu::Stream stream);
  /// Throws what NCCL's threads have met since.
  void check() const;
  /// Ends what is under way, here; NCCL's threads and kernels let go of all memory. No other call follows.
  void abort();

 private:
  void settle(int result, const char* call) const;
  [[noreturn]] void refuse(int result, const char* call) const;

  std::shared_ptr<const gpu::Device> device_;
  std::shared_ptr<const gpu::Nccl> nccl_;
  int rank_;
  Options options_;
  gpu::NcclComm comm_ = nullptr;
};

}  // namespace lanecast::nccl
