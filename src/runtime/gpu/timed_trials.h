// SPDX-License-Identifier: Apache-2.0
// Trials of NCCL beside our kernels, in the calls of a job: timed by the device, and settled by all ranks together.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/bootstrap.h"
#include "device/gpu/stream.h"
#include "select/trial.h"

namespace lanecast {

class TimedTrials {
 public:
  explicit TimedTrials(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  Trials::TrialTurn next(const SizeClass& what) { return trials_.next(what); }
  std::optional<Trials::Seconds> settled(const SizeClass& what) const { return trials_.settled(what); }

  /// Has `make` enqueue a call whose time counts.
  template <class Make>
  void timed(const SizeClass& what, Trials::Way way, gpu::Stream stream, const Make& make) {
    gpu::TimedEvent begin(device_, stream);
    make();
    times_[what][static_cast<std::size_t>(way)].emplace_back(std::move(begin), gpu::TimedEvent(device_, stream));
  }
  /// Have those of the class run?
  bool have_run(const SizeClass& what) const;
  /// Collective, once they have. Returns which is the faster.
  Trials::Way settle(const SizeClass& what, const Bootstrap& bootstrap);

 private:
  using Times = std::vector<std::pair<gpu::TimedEvent, gpu::TimedEvent>>;

  std::shared_ptr<gpu::Device> device_;
  Trials trials_;
  std::map<SizeClass, std::array<Times, Trials::kWays>> times_;
};

}  // namespace lanecast
