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
  DeviceWork(GpuCalls& calls, std::shared_ptr<GpuSide> side, gpu::Stream stream)
      : calls_(calls),
        side_(std::move(side)),
        captured_(side_->streams().capturing(stream)),
        done_(side_->streams().mark(stream)) {}

  /// What `stream` (a CUstream) does from now on comes after the call; the host goes on.
  void order(void* stream) const { side_->streams().wait(done_, static_cast<gpu::Stream>(stream)); }
  /// A captured call runs when its graph does, and has nothing to wait for here.
  bool done() const { return captured_ || side_->streams().passed(done_); }
  /// Blocks the host. Throws what has happened on the device. Not once the communicator has gone.
  void synchronize(const Interrupt& interrupt = {}) const;

 private:
  GpuCalls& calls_;
  std::shared_ptr<GpuSide> side_;
  bool captured_;
  gpu::OwnedEvent done_;
};

}  // namespace lanecast
