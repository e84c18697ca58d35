// SPDX-License-Identifier: Apache-2.0
#include "helpers/trials.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace lanecast::helpers {
namespace {

constexpr int kTrials = 3;       // of each number; the first warms up
constexpr double kWorth = 0.95;  // of one process's time: what saves less is not worth the cores

std::vector<int> numbers_up_to(int processes) {
  std::vector<int> found;
  for (int number = 1; number < processes; number *= 2) found.push_back(number);
  found.push_back(processes);
  return found;
}

}  // namespace

ProcessTrials::Class ProcessTrials::class_of(Kind kind, std::size_t bytes) { return {kind, std::bit_width(bytes)}; }

ProcessTrials::ProcessTrials(int processes) : numbers_(numbers_up_to(processes)) {}

ProcessTrials::Trial ProcessTrials::next(Class which) {
  const std::lock_guard lock(mutex_);
  State& state = classes_[which];
  if (state.found != 0) return {.number = state.found};
  const int call = state.calls++;
  const auto turn = std::min(static_cast<std::size_t>(call / kTrials), numbers_.size() - 1);
  return {.number = numbers_[turn], .is_timed = call % kTrials != 0};
}

void ProcessTrials::note(Class which, int number, double seconds_per_byte) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_first] = classes_[which].best.try_emplace(number, seconds_per_byte);
  if (!is_first) at->second = std::min(at->second, seconds_per_byte);
}

bool ProcessTrials::is_due(Class which) const {
  const std::lock_guard lock(mutex_);
  const State& state = classes_[which];
  return state.found == 0 && state.calls >= calls_until_due();
}

int ProcessTrials::calls_until_due() const { return kTrials * static_cast<int>(numbers_.size()); }

int ProcessTrials::found(Class which) const {
  const std::lock_guard lock(mutex_);
  return classes_[which].found;
}

std::vector<double> ProcessTrials::best(Class which) const {
  const std::lock_guard lock(mutex_);
  std::vector<double> found;
  for (const int number : numbers_) {
    const std::map<int, double>& best = classes_[which].best;
    const auto at = best.find(number);
    found.push_back(at == best.end() ? std::numeric_limits<double>::max() : at->second);
  }
  return found;
}

void ProcessTrials::settle(Class which, const std::vector<double>& slowest) {
  const auto best = std::ranges::min_element(slowest);
  const std::lock_guard lock(mutex_);
  classes_[which].found =
      *best < kWorth * slowest.front() ? numbers_[static_cast<std::size_t>(best - slowest.begin())] : 1;
}

}  // namespace lanecast::helpers
