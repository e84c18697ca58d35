// SPDX-License-Identifier: Apache-2.0
// The last calls of a communicator, and with them, where wanted, each message: what ranks did before something went
// wrong. A rank writes what it knows to a file; `lanecast trace` puts the ranks' files together.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "plan/collective.h"
#include "plan/plan.h"

namespace lanecast {

enum class CallState : std::uint8_t { running, done, failed };

struct CallRecord {
  std::uint64_t sequence = 0;
  Kind kind{};
  ReduceOp op{};
  DType dtype{};
  CallState state = CallState::running;
  int chunks = 1;
  int root = -1;          // of those that have one
  std::size_t bytes = 0;  // of the full buffer; 0 where each rank knows its own counts only
  std::int64_t begin_ns = 0, end_ns = 0;
  std::array<char, 64> algorithm{};  // cut off where it is longer
};

/// One message, or one collective that a library ran by itself; it has finished.
struct MessageRecord {
  std::uint64_t sequence = 0;  // of its call
  StepKind kind{};
  int peer = -1;  // -1: a library's collective
  std::uint32_t step = 0;
  int chunk = 0;
  std::size_t bytes = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  std::string_view transport;
};

/// Nanoseconds since 1970: a clock that ranks of other hosts have, too.
std::int64_t trace_clock_ns();

/// Written by whoever drives the calls; read at any time, also from a signal's handler in Python, which runs while a
/// call of the same thread waits but never inside these functions.
class CallLog {
 public:
  static constexpr std::size_t kCalls = 1000;
  static constexpr std::size_t kMessages = std::size_t{1} << 16;

  explicit CallLog(bool messages) : messages_on_(messages) {
    if (messages) messages_.reserve(kMessages);
  }

  /// A call begins; the one before it is over. Allocates nothing.
  void begin(const CallRecord& call);
  void end(CallState state);
  /// What the call under way waits for, as far as somebody has looked.
  void waits(std::string what);

  bool messages_on() const { return messages_on_; }
  void add(MessageRecord message);

  void fails(const std::string& why);

  /// The oldest first.
  std::vector<CallRecord> calls() const;
  std::vector<MessageRecord> messages() const;
  std::string waiting() const;
  std::string failure() const;

 private:
  const bool messages_on_;
  mutable std::mutex mutex_;  // guards everything below
  std::array<CallRecord, kCalls> calls_{};
  std::uint64_t begun_ = 0;
  std::vector<MessageRecord> messages_;  // a ring, once it is full
  std::uint64_t added_ = 0;
  std::string waits_;
  std::string failure_;
};

}  // namespace lanecast
