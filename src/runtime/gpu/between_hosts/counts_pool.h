// SPDX-License-Identifier: Apache-2.0
// Calls whose counts come with the launch: for which counts their programs are made, and memory for the counts.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "runtime/gpu/between_hosts/launch_counts.h"

namespace lanecast {

/// A call with counts as large as those that its program is made for: equal for calls that share one.
class BoundedCall {
 public:
  explicit BoundedCall(const Call& call);
  /// May the counts come with the launch? Of very unequal ones the longest would be the bound of all.
  static bool serves(const Call& call);
  BoundedCall(const BoundedCall&) = delete;
  BoundedCall& operator=(const BoundedCall&) = delete;

  const Call& call() const { return call_; }
  /// Bytes of a part, at most.
  std::size_t bound() const { return bound_; }
  /// Bytes of all of them, where all ranks know that.
  std::size_t all() const { return all_; }

 private:
  void bind_by_pairs(std::size_t most);
  void bind_to_all();

  Call call_;
  std::size_t bound_ = 0, all_ = 0;
  std::vector<std::size_t> sends_, receives_, counts_;
};

class CountsPool {
 public:
  explicit CountsPool(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  /// For so many rows: what no call uses any more. Null where there is none.
  std::shared_ptr<LaunchCounts> free(std::size_t rows);
  /// Calls the driver. The device is current.
  std::shared_ptr<LaunchCounts> make(std::size_t rows);

 private:
  std::shared_ptr<gpu::Device> device_;
  std::deque<std::shared_ptr<LaunchCounts>> all_;  // the first one was used the longest ago
};

}  // namespace lanecast
