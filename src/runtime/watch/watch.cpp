// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/watch.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "base/endless_wait.h"
#include "base/quiet_thread.h"

namespace lanecast {
namespace {

constexpr int kTicks = 8;  // of a deadline
constexpr double kLongestTick_s = 1;
constexpr double kLatestTick = 2;  // times as long
constexpr int kRests = 2;  // longest ticks without anyone to look after, before the thread sleeps until it is called
// A thread that has not had a core for a moment is not kept by a library.
constexpr double kLeastPatience_s = 1;

double patience_s(const Watched& watched) { return std::max(watched.patience_s(), kLeastPatience_s); }

}  // namespace

void Watch::add(Watched& watched) {
  const std::lock_guard lock(mutex_);
  if (stop_) return;
  if (!thread_.joinable()) thread_ = quiet_thread([this] { run(); });
  seen_.push_back({&watched});
  if (asleep_) changed_.notify_all();
}

void Watch::remove(Watched& watched) {
  const std::lock_guard lock(mutex_);
  std::erase_if(seen_, [&](const Observation& seen) { return seen.watched == &watched; });
}

void Watch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

double Watch::tick_s() const {
  double shortest = kLongestTick_s;
  for (const Observation& seen : seen_) shortest = std::min(shortest, patience_s(*seen.watched) / kTicks);
  return shortest;
}

void Watch::run() {
  std::unique_lock lock(mutex_);
  for (int rests = 0; !stop_;) {
    rests = seen_.empty() ? rests + 1 : 0;
    if (rests > kRests) {
      asleep_ = true;
      wait_without_end(changed_, lock);
      asleep_ = false;
      rests = 0;
      continue;
    }
    using Seconds = std::chrono::duration<double>;
    const double tick = tick_s();
    const auto begun = std::chrono::steady_clock::now();
    // Nobody calls meanwhile: who comes is looked at from the next tick on.
    changed_.wait_for(lock, Seconds(tick), [this] { return stop_; });
    // A tick may come late; one that takes much longer is a process that was suspended.
    look(std::min(Seconds(std::chrono::steady_clock::now() - begun).count(), kLatestTick * tick));
  }
}

void Watch::look(double since_s) {
  const Watched* const driven = driven_.load(std::memory_order_relaxed);
  const Observation* kept = nullptr;  // where the thread is
  for (Observation& seen : seen_) {
    const std::uint64_t visits = seen.watched->visits();
    if (visits % 2 == 1 && visits == seen.visits)
      seen.waited_s += since_s;
    else
      seen = {seen.watched, visits};
    if (seen.watched == driven && seen.waited_s > 0) kept = &seen;
  }
  bool stuck = false;
  for (Observation& seen : seen_) {
    const Observation& longest = kept && kept->waited_s > seen.waited_s ? *kept : seen;
    if (longest.waited_s < patience_s(*seen.watched)) continue;
    stuck |= &longest == kept;
    if (std::exchange(seen.told, true)) continue;
    seen.watched->give_up(longest.waited_s, longest.watched->place());
  }
  stuck_.store(stuck, std::memory_order_relaxed);
}

}  // namespace lanecast
