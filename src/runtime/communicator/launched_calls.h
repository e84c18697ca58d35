// SPDX-License-Identifier: Apache-2.0
// Calls between hosts on a GPU once graphs have captured some of them: each begins when the device has begun its
// launch, one after the other, in an order that no queue of the host's knows. So they go beside the host's collectives,
// and have a chain and tags of their own.
#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <memory>

#include "runtime/communicator/binding.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/footing.h"

namespace lanecast {

class BetweenHosts;

/// By whoever is in the gate.
class LaunchedCalls {
 public:
  LaunchedCalls(const Footing& footing, CallBinder& binding);

  /// From here on, for good; no call of the device is under way. At the first capture, which all ranks make at the same
  /// place among their calls.
  /// raise_fault: throws what kernels have met.
  void open(BetweenHosts& device, std::function<void()> raise_fault);
  bool is_open() const { return device_ != nullptr; }
  /// The host's half of a call that the host enqueues.
  std::shared_ptr<Work> look_after(std::shared_ptr<OrderedCall> on_gpu);

  /// Moves the one under way, or looks for the next one; true when something did. Fails the communicator.
  bool advance();
  /// Is none under way, nor has one begun?
  bool empty() const;
  /// May a graph replay one at any time?
  bool listens() const;

 private:
  /// Nothing where the device has not begun another launch.
  std::shared_ptr<BoundCall> next();
  bool move();
  /// Looks at what kernels have met while no call is under way.
  void look_now_and_then();
  void end_all(const std::exception_ptr& error);

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  Waits& waits_;
  CallBinder& binding_;
  BetweenHosts* device_ = nullptr;
  std::function<void()> raise_fault_;
  std::shared_ptr<BoundCall> under_way_;
  std::deque<std::shared_ptr<BoundCall>> enqueued_;  // by the host, in their order
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace lanecast
