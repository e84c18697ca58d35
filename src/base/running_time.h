// SPDX-License-Identifier: Apache-2.0
// Time in which this process ran. One that is stopped (SIGSTOP, a debugger, a frozen container) hears nobody meanwhile,
// which is no peer's silence: deadlines leave that time out.
#pragma once

#include <chrono>
#include <vector>

namespace lanecast {

/// As somebody sees it who waits, and looks every few milliseconds: between two looks of a process that runs there is
/// little time, or processor time in it.
class RunningTime {
 public:
  using Clock = std::chrono::steady_clock;
  struct Reading {
    Clock::time_point at;
    Clock::duration worked;  // processor time of all of the process's threads so far
  };

  /// When a wait begins, and every few milliseconds in it. `timeout_s`: its deadline. Of the time since the look before
  /// this counts what the process worked, and an eighth of the deadline, but no more than a second: so a deadline is
  /// over after some looks, however rarely a crowded machine lets this process look.
  void look(double timeout_s);
  void look(const Reading& now, double timeout_s);

  /// How long this process has run since then, as far as its looks have shown.
  Clock::duration since(Clock::time_point then, Clock::time_point now = Clock::now()) const;
  double seconds_since(Clock::time_point then, Clock::time_point now = Clock::now()) const {
    return std::chrono::duration<double>(since(then, now)).count();
  }
  /// The same of an age: of what happened so many seconds ago.
  double seconds_of(double age_s) const;

 private:
  struct Stop {
    Clock::time_point end;
    Clock::duration lost;
  };
  std::vector<Stop> stops_;  // the latest, in their order
  Reading last_{};
};

/// A span of time in which this process runs.
class Countdown {
 public:
  explicit Countdown(std::chrono::duration<double> span) : span_s_(span.count()) { ran_.look(span_s_); }

  bool over() {
    ran_.look(span_s_);
    return ran_.seconds_since(begin_) >= span_s_;
  }

 private:
  double span_s_;
  RunningTime::Clock::time_point begin_ = RunningTime::Clock::now();
  RunningTime ran_;
};

/// Waits until is_so(), or until this process has run for `span`; is_so().
template <class Condition, class Lock, class Predicate>
bool wait_while_running(Condition& condition, Lock& lock, std::chrono::duration<double> span, const Predicate& is_so) {
  Countdown left(span);
  while (!is_so()) {
    if (left.over()) return false;
    condition.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace lanecast
