// SPDX-License-Identifier: Apache-2.0
// What becomes of a communicator that has failed: it stays failed, its calls end, and its peers hear why.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/failure.h"
#include "runtime/communicator/gate.h"

namespace lanecast {

class GpuExecutor;

/// All but abort() by whoever is in the gate.
class Failing {
 public:
  Failing(Ground& ground, Gate& gate);
  /// The calls of a part end with that error, after those of the parts before.
  void also_ends(std::function<void(const std::exception_ptr&)> part) { parts_.push_back(std::move(part)); }
  /// So do kernels that wait.
  void opens(const std::shared_ptr<GpuExecutor>& executor);

  void fail(const Failure& reason);
  /// See Communicator::abort().
  void abort(const std::string& why);
  /// Runs a part of a call; an error in it is the communicator's, unless all ranks agree on it: kind `Agreed`.
  struct None {};
  template <class Agreed = None, class Part>
  auto or_fail(const Part& part);

  /// Throws that a peer has gone, `where`: in what this rank waits for it.
  [[noreturn]] void lose(int peer, const Loss& loss, const std::string& where);
  /// Throws where a peer has said that it gives up, also one that no call waits for. `before`: what this rank would do.
  void heed(std::string_view before);
  /// The same, if it is long ago that somebody looked; now_ns: by trace_clock_ns().
  template <class Before>
  void heed_at(std::int64_t now_ns, const Before& before);

 private:
  Ground& ground_;
  Gate& gate_;
  std::vector<std::function<void(const std::exception_ptr&)>> parts_;
  std::weak_ptr<GpuExecutor> gpu_;  // null before the first call on a GPU
  Failure cause_;                   // what peers hear of the failure, where that is not the failure itself
  std::int64_t heeded_ns_ = 0;
};

template <class Agreed, class Part>
auto Failing::or_fail(const Part& part) {
  try {
    return part();
  } catch (const Agreed&) {
    throw;
  } catch (const std::exception& error) {
    fail(failure_of(error));
    throw;
  }
}

template <class Before>
void Failing::heed_at(std::int64_t now_ns, const Before& before) {
  if (now_ns - heeded_ns_ < std::chrono::nanoseconds(kLookEvery).count()) return;
  heeded_ns_ = now_ns;
  heed(before());
}

}  // namespace lanecast
