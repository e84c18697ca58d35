// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_log.h"

#include <algorithm>
#include <chrono>

namespace lanecast {

std::int64_t trace_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void CallLog::begin(const CallRecord& call) {
  const std::int64_t now = trace_clock_ns();
  const std::lock_guard lock(mutex_);
  CallRecord& record = calls_[begun_++ % kCalls];
  record = call;
  record.begin_ns = now;
}

void CallLog::end(CallState state) {
  const std::int64_t now = trace_clock_ns();
  const std::lock_guard lock(mutex_);
  if (begun_ == 0) return;
  CallRecord& record = calls_[(begun_ - 1) % kCalls];
  if (record.state != CallState::running) return;
  record.state = state;
  record.end_ns = now;
  if (state == CallState::done) waits_.clear();
}

void CallLog::waits(std::string what) {
  const std::lock_guard lock(mutex_);
  waits_ = std::move(what);
}

void CallLog::fails(const std::string& why) {
  end(CallState::failed);
  const std::lock_guard lock(mutex_);
  failure_ = why;
}

void CallLog::add(MessageRecord message) {
  const std::lock_guard lock(mutex_);
  message.sequence = calls_[(begun_ - 1) % kCalls].sequence;
  if (messages_.size() < kMessages)
    messages_.push_back(message);
  else
    messages_[added_ % kMessages] = message;
  ++added_;
}

std::vector<CallRecord> CallLog::calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallRecord> kept;
  const std::uint64_t count = std::min<std::uint64_t>(begun_, kCalls);
  for (std::uint64_t k = begun_ - count; k < begun_; ++k) kept.push_back(calls_[k % kCalls]);
  return kept;
}

std::vector<MessageRecord> CallLog::messages() const {
  const std::lock_guard lock(mutex_);
  std::vector<MessageRecord> kept;
  for (std::uint64_t k = added_ - messages_.size(); k < added_; ++k) kept.push_back(messages_[k % kMessages]);
  return kept;
}

std::string CallLog::waiting() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

std::string CallLog::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace lanecast
