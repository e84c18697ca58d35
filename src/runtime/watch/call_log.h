// SPDX-License-Identifier: Apache-2.0
// The last calls of a communicator, and with them, where wanted, each step: what ranks did before something went wrong,
// or what took the time. A rank writes what it knows to a file; `lanecast trace` puts the ranks' files together.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/board.h"
#include "base/dtype.h"
#include "plan/plan.h"

namespace lanecast {

enum class CallState : std::uint8_t { running, done, failed };

struct CallRecord {
  std::uint64_t sequence = 0;
  std::size_t bytes = 0;  // of the full buffer; 0 where each rank knows its own counts only
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;  // 0: under way
  int chunks = 1;
  int root = -1;  // of those that have one
  Kind kind{};
  ReduceOp op{};
  DType dtype{};
  std::array<char, 61> algorithm{};  // cut off where it is longer
};

/// What a rank has done for a step, or that it has waited with nothing to do.
struct StepRecord {
  std::uint64_t sequence = 0;                   // of its call
  std::optional<StepKind> kind = std::nullopt;  // none: it has waited
  int peer = -1;                                // -1: a library's collective, or this rank's own work
  std::uint32_t step = 0;
  int chunk = 0;
  std::size_t bytes = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  std::string_view transport;  // of a message or a library's collective
};

/// A kernel that a call on GPUs' memory within a host has launched. The host has enqueued it then; a graph that has
/// captured it runs it again without a word.
struct LaunchRecord {
  std::uint64_t call = 0;  // counts such calls
  std::string what;        // the call
  std::size_t bytes = 0;   // of its full buffer
  std::string kernel;
  int blocks = 0;  // of a program's kernel: its lanes
  std::int64_t at_ns = 0;
};

/// The latest records, at most so many.
template <class Record, std::size_t most>
class Latest {
 public:
  void reserve() { kept_.reserve(most); }
  void add(Record record) {
    if (kept_.size() < most)
      kept_.push_back(std::move(record));
    else
      kept_[added_ % most] = std::move(record);
    ++added_;
  }
  /// The oldest first.
  std::vector<Record> all() const {
    std::vector<Record> records;
    for (std::uint64_t k = added_ - kept_.size(); k < added_; ++k) records.push_back(kept_[k % most]);
    return records;
  }

 private:
  std::vector<Record> kept_;  // a ring, once it is full
  std::uint64_t added_ = 0;
};

/// Nanoseconds since 1970: a clock that ranks of other hosts have, too.
std::int64_t trace_clock_ns();

/// Written by whoever drives the calls; read at any time by any thread, also from a signal's handler in Python, which
/// runs while a call of the same thread waits but never inside these functions. A call costs two looks at the clock and
/// some stores; locks are for what happens seldom, or only where it is asked for.
class CallLog {
 public:
  static constexpr std::size_t kCalls = 1000;
  static constexpr std::size_t kSteps = std::size_t{1} << 16;
  static constexpr std::size_t kLaunches = std::size_t{1} << 13;

  explicit CallLog(bool steps) {
    if (steps) steps_.reserve();
  }

  /// A call begins; the one before it is over. Allocates nothing.
  std::int64_t begin(const CallRecord& call);
  /// Nanoseconds that the call has taken.
  std::int64_t end();
  /// What this rank waits for, as far as somebody has looked: in the call under way, and over with it; or outside of
  /// the calls that are kept here, in a split or for messages, until nothing is said.
  void waits(std::string what);

  void add(StepRecord step);

  /// A call on GPUs' memory within a host begins to launch its kernels.
  void begin_on_gpu(std::string what, std::size_t bytes);
  /// One of its kernels is enqueued.
  void launched(std::string_view kernel, int blocks);

  /// The call under way, if there is one, ends with it.
  void fails(const std::string& why);

  /// The oldest first.
  std::vector<CallRecord> calls() const;
  CallState state_of(const CallRecord& call) const;
  std::vector<StepRecord> steps() const;
  std::vector<LaunchRecord> launches() const;
  std::string waiting() const;
  std::string failure() const;

 private:
  /// For the writer. Relaxed: it has stored it itself.
  std::uint64_t latest() const { return latest_.load(std::memory_order_relaxed); }

  bool running_ = false;                   // the latest call; the writer's own
  std::int64_t begin_ns_ = 0;              // of the latest call; the writer's own
  Board<CallRecord, kCalls> calls_;        // numbered as the communicator numbers them
  std::atomic<std::uint64_t> latest_ = 0;  // call
  std::atomic<std::uint64_t> failed_ = 0;  // call; 0: none, or not in a call
  mutable std::mutex mutex_;               // guards everything below
  Latest<StepRecord, kSteps> steps_;
  Latest<LaunchRecord, kLaunches> launches_;
  LaunchRecord on_gpu_;        // what the launches of the latest call on GPUs have in common
  std::uint64_t waiting_ = 0;  // the latest call, at that time
  bool waits_in_call_ = false;
  std::string waits_;  // its words
  std::string failure_;
};

}  // namespace lanecast
