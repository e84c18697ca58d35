// SPDX-License-Identifier: Apache-2.0
// A work of the CPU's tensors: done when all calls of the core that were started for it are.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "work.h"

namespace lanecast_torch {

class HostWork final : public Work {
 public:
  /// blocking: its calls are made in the caller's thread, which has to wait for them anyway; two threads less to wake.
  explicit HostWork(const Call& call, bool blocking = false) : Work(call, {}), blocking_(blocking) {
    pending_in_watch_.emplace(watch_);
  }

  int sourceRank() const override;
  bool wait(std::chrono::milliseconds timeout) override;

  void launch(const std::function<void(Work&)>& start) override;
  void start(Engine& engine, const lanecastCall_t& call, std::chrono::milliseconds timeout) override;

  // Before launched():

  bool blocking() const { return blocking_; }
  void received_from(int rank) { source_ = rank; }
  /// The work ends with this call of the core too, and frees it. `when_done` is called when it is done.
  void add(lanecastWork_t started, std::weak_ptr<Engine> of, std::function<void(lanecastResult_t)> when_done);
  /// No more calls are added.
  void launched(std::exception_ptr error = nullptr);

 private:
  struct Listener;

  /// Hears signals. False where it has not ended by then.
  bool ends_by(std::chrono::steady_clock::time_point deadline);
  std::string awaited();
  void abandon();
  void ended(std::exception_ptr error);
  void settle();
  float measured_until(const Work& last) const override;

  const bool blocking_;
  std::atomic<int> pending_ = 1;  // calls, and one until launched()
  std::mutex error_mutex_;        // guards error_ until nothing is pending
  std::exception_ptr error_;      // the first
  std::mutex calls_mutex_;        // guards calls_ where they may end meanwhile
  std::vector<lanecastWork_t> calls_;
  std::weak_ptr<Engine> engine_;  // of the calls
  int source_ = -1;
  std::chrono::steady_clock::time_point end_;  // where it is timed, once it is known to have ended
};

}  // namespace lanecast_torch
