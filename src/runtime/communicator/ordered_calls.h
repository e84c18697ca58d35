// SPDX-License-Identifier: Apache-2.0
// The collectives under way, in the order in which they were made: each begins when those before it have finished.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "runtime/communicator/binding.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/footing.h"
#include "runtime/watch/surprises.h"

namespace lanecast {

/// By whoever is in the gate.
class OrderedCalls {
 public:
  OrderedCalls(const Footing& footing, CallBinder& binding);

  bool empty() const { return calls_.empty(); }
  /// In the caller's thread, to its end, where no other is under way.
  void run_now(const std::shared_ptr<Execution>& call, const void* in, void* out, const Interrupt& interrupt);
  /// Behind those that are here. Somebody has to advance() them then.
  struct CallTurn {
    Gate::Lock& lock;  // let go of where the call's groups are opened behind others
    double timeout_s;
    const Interrupt& interrupt;
  };
  void queue(const std::shared_ptr<BoundCall>& call, const CallTurn& turn);
  /// The host's half of a call that a stream orders, and has given its turn.
  std::shared_ptr<Work> look_after(std::shared_ptr<OrderedCall> on_gpu);

  /// Moves the first one; true when something did.
  bool advance();
  /// Waits for all of them, outside the gate.
  void drain(Gate::Lock& lock, const Interrupt& interrupt = {});
  /// What keeps the call of this work, for people; empty where it is none of these.
  std::string waits_for(const Work& work) const;
  /// Of those that have ended.
  const std::shared_ptr<Surprises>& surprises() const { return surprises_; }

 private:
  void push(const std::shared_ptr<BoundCall>& call);
  /// In the caller's thread, where groups are opened in the order of the program: two communicators that opened theirs
  /// in a thread of ours might do so in another order than on the other ranks.
  void open_groups(BoundCall& call, const CallTurn& turn);
  void begin(OrderedCall& call, const std::byte* in, std::byte* out);
  /// After its last step.
  void end(Execution& call);
  /// Runs a part of a call, whose error is the communicator's and keeps the call's memory.
  template <class Part>
  void or_fail(const std::shared_ptr<Execution>& call, const Part& part);
  void end_all(const std::exception_ptr& error);

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  Waits& waits_;
  CallBinder& binding_;
  std::shared_ptr<Surprises> surprises_ = std::make_shared<Surprises>();
  std::vector<std::shared_ptr<BoundCall>> calls_;  // the first is under way; a deque would allocate now and then
};

}  // namespace lanecast
