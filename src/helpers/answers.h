// SPDX-License-Identifier: Apache-2.0
// Calls whose slices are under way, in their order: a thread waits for each, since nobody may be waiting for the call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "helpers/member.h"
#include "runtime/communicator/communicator.h"

namespace lanecast::helpers {

struct SlicedCall {
  std::shared_ptr<Work> whole = std::make_shared<Work>();  // done when every process is
  std::shared_ptr<Work> own = std::make_shared<Work>();    // this process's slice
  std::vector<Member*> at_work;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::function<void(double seconds)> timed;  // where the time is wanted: since its begin, or the end of the one before
};

class Answers {
 public:
  Answers(Communicator& core, std::vector<Member>& members);
  /// Calls that are under way end with an error.
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  /// In the order in which helpers were told of the calls.
  void add(SlicedCall call);
  /// The last call that was added; null where none is under way.
  std::shared_ptr<Work> last() const;
  /// What a call under way waits for, for people; empty for one that is not here.
  std::string waits_for(const Work& whole) const;

  /// Helpers give up what is under way, and end; calls end with an error. Any thread.
  void give_up();
  bool has_given_up() const { return gave_up_.load(std::memory_order_relaxed); }
  /// Who is no longer there: fails the communicator, and throws.
  [[noreturn]] void lose(const Member& member);

 private:
  void serve();
  std::exception_ptr end_of(const SlicedCall& call);
  void await_own(Work& own) const;
  bool is_closing() const;
  void take_answer(Member& member, bool refused);
  void await_answer(const Member& member);
  [[noreturn]] void fail_as_gone() const;
  void let_go();
  std::string name_of(const Member& member) const;

  Communicator& core_;
  std::vector<Member>& members_;
  mutable std::mutex mutex_;  // guards calls_ and closing_
  std::condition_variable changed_;
  std::deque<SlicedCall> calls_;  // the first is being waited for
  bool closing_ = false;
  std::atomic<bool> gave_up_ = false;  // relaxed: says nothing of other memory
  std::thread thread_;
};

}  // namespace lanecast::helpers
