// SPDX-License-Identifier: Apache-2.0
#include "peers/host_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/quiet_thread.h"
#include "base/running_time.h"

namespace lanecast::peers {
namespace {

constexpr double kLongestTick_s = 1;
constexpr double kTicks = 32;  // of a deadline

double tick_of(double timeout_s) { return std::min(kLongestTick_s, timeout_s / kTicks); }

}  // namespace

HostClock::HostClock(gpu::u64* ran_ns)
    : ran_ns_(ran_ns), timeout_s_(kLongestTick_s * kTicks), thread_(quiet_thread([this] { run(); })) {}

HostClock::~HostClock() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

double HostClock::serve(double timeout_s) {
  {
    const std::lock_guard lock(mutex_);
    // As in nearly each call, which wakes nobody; else a tick that has begun may be far longer.
    if (std::exchange(timeout_s_, timeout_s) == timeout_s) return tick_of(timeout_s);
  }
  changed_.notify_all();
  return tick_of(timeout_s);
}

void HostClock::run() {
  using Clock = RunningTime::Clock;
  RunningTime ran;
  auto seen = Clock::now();
  std::unique_lock lock(mutex_);
  for (Clock::duration so_far{}; !stop_;) {
    ran.look(timeout_s_);
    const auto now = Clock::now();
    so_far += ran.since(seen, now);
    seen = now;
    // Relaxed: it orders nothing, kernels look at it now and then.
    __atomic_store_n(ran_ns_, static_cast<gpu::u64>(std::chrono::nanoseconds(so_far).count()), __ATOMIC_RELAXED);
    changed_.wait_for(lock, std::chrono::duration<double>(tick_of(timeout_s_)));
  }
}

}  // namespace lanecast::peers
