// SPDX-License-Identifier: Apache-2.0
// A call that does not finish: who looks at the deadline and the peers while it waits, and what is said in the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/running_time.h"
#include "runtime/agree/bootstrap_over.h"
#include "runtime/agree/call_agreement.h"
#include "runtime/communicator/failing.h"
#include "runtime/watch/under_way.h"

namespace lanecast {

/// By whoever is in the gate.
class Waits {
 public:
  /// blocked: is in this call until it ends, and keeps other threads from calling meanwhile.
  enum class Caller : std::uint8_t { blocked, free };

  Waits(Ground& ground, Gate& gate, Failing& failing);

  /// Seconds without progress after which the next call gives up.
  double timeout_s() const { return timeout_s_; }
  void set_timeout(double timeout_s) { timeout_s_ = timeout_s; }
  /// Throws UsageError.
  void check_timeout(double timeout_s) const;
  /// Moves what waits for no call of the host's: also while one has this thread. True when something moved; throws to
  /// end the wait.
  void also_moves(std::function<bool()> beside) { beside_.push_back(std::move(beside)); }
  /// By the looks of all waits.
  RunningTime& ran() { return ran_; }
  CallAgreement& agreement() { return agreement_; }
  /// The number of the next collective, which errors name from now on.
  std::uint64_t next_call() { return ++calls_; }

  /// Of the ranks of `gathering`, which needs no more than them and what they do; beside no other messages.
  Bootstrap among(Gathering gathering) const;
  Bootstrap among_all(const std::string& what);

  /// To its end, in the caller's thread.
  void drive(UnderWay& call, const Interrupt& interrupt);
  bool advance(UnderWay& call);
  /// Runs a part of a call. Where a transport cannot go on, a peer often knows the reason.
  template <class Part>
  void with_reasons(const UnderWay& call, const Part& part);
  /// A call begins that is not driven: nobody need look around at once.
  void begins() { last_look_ = std::chrono::steady_clock::now(); }
  /// Looks at the user's wishes, the peers and the deadline, at most every few milliseconds; throws to give up.
  void look_around(const UnderWay& call, const Deadline& deadline, const Interrupt& interrupt, Caller caller);
  /// The same without the user, and now.
  void look_at(const UnderWay& call, const Deadline& deadline, Caller caller);
  std::string describe(const UnderWay& call, int peer) const;
  /// "call 7", "launch 5000"
  std::string number_of(const UnderWay& call) const;

 private:
  bool move_beside() const;
  void look_for_reasons(const UnderWay& call);
  [[noreturn]] void give_up(const UnderWay& call, int peer, const Loss& loss);

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  CallAgreement agreement_;
  double timeout_s_;
  std::uint64_t calls_ = 0;
  std::vector<std::function<bool()>> beside_;
  RunningTime ran_;
  std::chrono::steady_clock::time_point last_look_;
};

template <class Part>
void Waits::with_reasons(const UnderWay& call, const Part& part) {
  try {
    part();
  } catch (const StepMismatchError& error) {  // a transport's, which knows the message and not the call
    look_for_reasons(call);
    if (call.title().empty()) throw;
    throw MismatchError(std::string(error.what()) + "; found in " + number_of(call) + " of rank " +
                        std::to_string(ground_.rank()) +
                        (error.same_call ? " and of rank " + std::to_string(error.peer) : std::string()) + ", " +
                        std::string(call.title()));
  } catch (const TransportError&) {
    look_for_reasons(call);
    throw;
  }
}

}  // namespace lanecast
