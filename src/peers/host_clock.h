// SPDX-License-Identifier: Apache-2.0
// Tells kernels how long this process has run. Their deadlines count that time: while a job is suspended as a whole,
// its GPUs run on, and a peer that does not come meanwhile is not silent.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "device/gpu/kernels/arguments.h"

namespace lanecast::peers {

class HostClock {
 public:
  /// A word that kernels read, and that outlives this.
  explicit HostClock(gpu::u64* ran_ns);
  ~HostClock();
  HostClock(const HostClock&) = delete;
  HostClock& operator=(const HostClock&) = delete;

  /// Of the waits from now on, of which the clock is to be a small part. Returns by how many seconds a look may be
  /// late.
  double serve(double timeout_s);

 private:
  void run();

  gpu::u64* const ran_ns_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  double timeout_s_;
  bool stop_ = false;
  std::thread thread_;  // of its own, since nobody else is awake while a graph is replayed
};

}  // namespace lanecast::peers
