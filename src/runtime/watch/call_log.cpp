// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/call_log.h"

#include <chrono>
#include <cstddef>
#include <optional>

namespace lanecast {

std::int64_t trace_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t CallLog::begin(const CallRecord& call) {
  CallRecord record = call;
  record.begin_ns = begin_ns_ = trace_clock_ns();
  calls_.put(record);
  running_ = true;
  // Release: pairs with the acquire in calls(); whoever sees the number finds the call.
  latest_.store(call.sequence, std::memory_order_release);
  return begin_ns_;
}

std::int64_t CallLog::end() {
  running_ = false;
  const std::int64_t end_ns = trace_clock_ns();
  calls_.amend(latest(), offsetof(CallRecord, end_ns), static_cast<std::uint64_t>(end_ns));
  return end_ns - begin_ns_;
}

void CallLog::waits(std::string what) {
  const std::lock_guard lock(mutex_);
  waiting_ = latest();
  waits_in_call_ = running_;
  waits_ = std::move(what);
}

void CallLog::fails(const std::string& why) {
  if (running_) {
    // Relaxed: end() publishes it together with the end.
    failed_.store(latest(), std::memory_order_relaxed);
    end();
  }
  const std::lock_guard lock(mutex_);
  failure_ = why;
}

void CallLog::add(StepRecord step) {
  const std::lock_guard lock(mutex_);
  step.sequence = latest();
  steps_.add(step);
}

void CallLog::begin_on_gpu(std::string what, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  on_gpu_ = {.call = on_gpu_.call + 1, .what = std::move(what), .bytes = bytes, .kernel = {}};
}

void CallLog::launched(std::string_view kernel, int blocks) {
  const std::lock_guard lock(mutex_);
  LaunchRecord record = on_gpu_;
  record.kernel = kernel;
  record.blocks = blocks;
  record.at_ns = trace_clock_ns();
  launches_.add(std::move(record));
}

std::vector<CallRecord> CallLog::calls() const {
  std::vector<CallRecord> kept;
  const std::uint64_t latest = latest_.load(std::memory_order_acquire);  // pairs with begin()
  for (std::uint64_t k = latest > kCalls ? latest - kCalls + 1 : 1; k <= latest; ++k) {
    std::optional<CallRecord> call = calls_.find(k);
    // Being written: the call ends, or a later one takes its place, at this very moment.
    for (int more = 0; !call && more < 100; ++more) call = calls_.find(k);
    if (call) kept.push_back(*call);
  }
  return kept;
}

CallState CallLog::state_of(const CallRecord& call) const {
  if (call.end_ns == 0) return CallState::running;
  // Relaxed: the record's end, which was stored later, has been seen, and find() has a fence.
  return call.sequence == failed_.load(std::memory_order_relaxed) ? CallState::failed : CallState::done;
}

std::vector<StepRecord> CallLog::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_.all();
}

std::vector<LaunchRecord> CallLog::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_.all();
}

std::string CallLog::waiting() const {
  const std::uint64_t latest = latest_.load(std::memory_order_acquire);  // pairs with begin()
  const auto call = calls_.find(latest);
  const std::lock_guard lock(mutex_);
  if (waiting_ != latest || (waits_in_call_ && (!call || state_of(*call) == CallState::done))) return {};
  return waits_;
}

std::string CallLog::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace lanecast
