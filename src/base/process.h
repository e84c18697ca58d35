// SPDX-License-Identifier: Apache-2.0
// Is a process still the one that it was, and alive?
#pragma once

#include <cstdint>

namespace lanecast {

/// A process is known by its id and the time of its start, since ids are given again.
class Process {
 public:
  Process() = default;
  explicit Process(int pid);

  int id() const { return pid_; }
  /// The process that has started it, or that has taken it over since; -1 where it has ended.
  int parent() const;
  /// Reads one file of /proc: microseconds. A killed child that its parent has not waited for counts as ended.
  bool has_ended() const;
  /// As proc(5) abbreviates what it does: 'R' runs, 'S' sleeps, 'T' is stopped, 'Z' where it has ended.
  char state() const;
  /// Processor time that it has taken; -1 where it has ended.
  std::int64_t processor_ticks() const;

 private:
  int pid_ = -1;
  std::uint64_t start_ticks_ = 0;
};

}  // namespace lanecast
