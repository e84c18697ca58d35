// SPDX-License-Identifier: Apache-2.0
// Who moves calls that were started: the progress thread, round by round, or callers that wait for their own.
#pragma once

#include <optional>

#include "runtime/communicator/footing.h"
#include "runtime/communicator/launched_calls.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/progress_thread.h"

namespace lanecast {

class CarriedMessages;
class MessageCalls;

/// Outside the gate, all but what the thread calls: a round comes in by itself, unless somebody else is.
class ProgressRounds final : public Moved {
 public:
  struct Parts {
    OrderedCalls& calls;
    LaunchedCalls& launched;
    CarriedMessages& carried;
    MessageCalls& messages;
  };
  ProgressRounds(const Footing& footing, const Parts& parts);

  static void wait(Work& work, const Interrupt& interrupt);
  /// Lets the progress thread move what was started.
  void hand_to_thread();
  /// Moves what is started, in the caller's thread, until `work` is done; throws the call's error.
  void advance_until_done(Work& work, const Interrupt& interrupt);
  /// For a blocking call that had to be started: the caller's buffers are not touched after an interrupt.
  void wait_or_fail(Work& work, const Interrupt& interrupt);

  int rank() const override { return ground_.rank(); }
  Watched& watched() override { return ground_.shown; }
  bool advance() override;
  ThreadWork work() override;
  void give_up() override;

 private:
  /// After an exception of an interrupt in a wait for `work`: the communicator fails, unless that is done.
  void fail_if_interrupted(Work& work, const std::exception& error);
  /// After a failure: goes on telling those peers that have not taken it yet, for as long as they would wait.
  void tell_by_and_by();

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  Waits& waits_;
  OrderedCalls& calls_;
  LaunchedCalls& launched_;
  CarriedMessages& carried_;
  MessageCalls& messages_;
  std::optional<Deadline> telling_;  // of peers that are to hear of a failure
};

}  // namespace lanecast
