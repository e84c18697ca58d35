// SPDX-License-Identifier: Apache-2.0
// Ranks that call NCCL's collectives together. They are connected when it is made, by a thread that its owner waits for
// and may leave behind; from then on the caller's thread enqueues, and waits for nobody.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "device/gpu/device.h"
#include "peers/nccl/calls.h"

namespace lanecast::nccl {

/// What of a collective NCCL has not, or has with results that differ from our kernels': "float32 min"; empty: nothing.
std::string missing(Kind kind, DType dtype, ReduceOp op);

/// Throws UsageError where there is no NCCL that serves.
void require(const std::vector<std::string>& library_folders);

struct Options {
  int max_ctas = 0;            // 0: as many as NCCL takes
  double close_timeout_s = 0;  // for the last messages, where the other ranks are late
  /// Asked while NCCL opens and connects the ranks, with the seconds since; throws to give up.
  std::function<void(double waited_s)> keep_waiting;
};

class NcclCommunicator {
 public:
  /// Collective over the ranks of `bootstrap`. Throws on all ranks where it does on one, UsageError where that has no
  /// usable NCCL.
  NcclCommunicator(const std::shared_ptr<gpu::Device>& device, const Bootstrap& bootstrap,
                   const std::vector<std::string>& library_folders, Options options);
  /// What is enqueued has run. Waits for NCCL's threads, which may wait for those of the host's other ranks.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// In the order of the stream, which may be captured.
  void enqueue(const NcclCollective& call, gpu::Stream stream) const;
  /// Throws what NCCL's threads have met since.
  void check() const;
  /// Ends what is under way, here; NCCL's threads and kernels let go of all memory. No other call follows.
  void abort();

 private:
  void check(int result, const char* call) const;
  [[noreturn]] void refuse(int result, const char* call) const;

  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<const gpu::Nccl> nccl_;
  int rank_, size_;
  Options options_;
  gpu::NcclComm comm_ = nullptr;
};

}  // namespace lanecast::nccl
