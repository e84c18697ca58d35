// SPDX-License-Identifier: Apache-2.0
// A call under way on a stream of the communicator's own.
#pragma once

#include <memory>

#include "runtime/communicator/gpu_calls.h"
#include "runtime/gpu/gpu_executor.h"

namespace lanecast {

class DeviceWork {
 public:
  /// stream: the call's.
  DeviceWork(GpuCalls& calls, std::shared_ptr<GpuExecutor> executor, gpu::Stream stream)
      : calls_(calls),
        executor_(std::move(executor)),
        captured_(executor_->order_of_calls().capturing(stream)),
        done_(executor_->order_of_calls().mark(stream)) {}

  /// What `stream` (a CUstream) does from now on comes after the call; the host goes on.
  void order(void* stream) const { executor_->order_of_calls().wait(done_, static_cast<gpu::Stream>(stream)); }
  /// A captured call runs when its graph does, and has nothing to wait for here.
  bool done() const { return captured_ || executor_->order_of_calls().passed(done_); }
  /// Blocks the host. Throws what has happened on the device. Not once the communicator has gone.
  void synchronize(const Interrupt& interrupt = {}) const;

 private:
  GpuCalls& calls_;
  std::shared_ptr<GpuExecutor> executor_;
  bool captured_;
  gpu::OwnedEvent done_;
};

}  // namespace lanecast
