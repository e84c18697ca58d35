// SPDX-License-Identifier: Apache-2.0
// How many processes move a call: as many as were fastest in the first calls of its kind and size.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/kind.h"

namespace lanecast::helpers {

inline constexpr std::size_t kLeastBytes = 1 << 20;  // of a call that is tried by several: waking helpers takes 100 us

/// Of one communicator. What it answers is alike on all ranks whose calls are alike. Any thread.
class ProcessTrials {
 public:
  /// Calls of one kind and of sizes within a factor of two.
  using Class = std::pair<Kind, int>;
  static Class class_of(Kind kind, std::size_t bytes);

  explicit ProcessTrials(int processes);

  /// 1, 2, 4, … and all.
  const std::vector<int>& numbers() const { return numbers_; }
  struct Trial {
    int number = 1;
    bool is_timed = false;  // the first of each number warms up
  };
  /// For the next call, which counts from now on.
  Trial next(Class which);
  /// The number that was chosen; 0: none yet.
  int found(Class which) const;
  /// Of one class, until every number has had its trials.
  int calls_until_due() const;
  /// A trial took so long for each byte.
  void note(Class which, int number, double seconds_per_byte);
  /// Has every number had its trials, and is none chosen yet?
  bool is_due(Class which) const;
  /// The best of each number.
  std::vector<double> best(Class which) const;
  /// By the slowest rank's times of each number. One process stays unless more are worth their cores.
  void settle(Class which, const std::vector<double>& slowest);

 private:
  struct State {
    int calls = 0;
    int found = 0;
    std::map<int, double> best;  // by number
  };

  const std::vector<int> numbers_;
  mutable std::mutex mutex_;
  mutable std::map<Class, State> classes_;
};

}  // namespace lanecast::helpers
