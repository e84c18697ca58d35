// SPDX-License-Identifier: Apache-2.0
// What a communicator shows of itself to whoever looks after the thread that moves its messages, and what becomes of it
// where a library below keeps that thread: waits end, though nobody can enter the communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/communicator/progress_thread.h"
#include "runtime/watch/call_log.h"
#include "runtime/watch/watch.h"
#include "runtime/watch/work.h"
#include "runtime/wires/router.h"

namespace lanecast {

class GpuExecutor;

class Shown final : public Watched {
 public:
  Shown(int rank, std::shared_ptr<Router> router, const CallLog& log, double timeout_s)
      : rank_(rank), router_(std::move(router)), log_(log), timeout_s_(timeout_s) {}

  // By whoever drives the communicator.
  void opens(const std::shared_ptr<GpuExecutor>& executor);
  /// Of the call that is moved now.
  void waits_for(double timeout_s) { timeout_s_.store(timeout_s, std::memory_order_relaxed); }  // orders nothing
  /// A call that was started, whose end somebody waits for.
  void starts(const std::shared_ptr<Work>& work);

  /// Throws TimeoutError where the communicator was given up from outside.
  void refuse_if_given_up() const;

  std::uint64_t visits() const override { return router_->visits(); }
  std::string place() const override { return router_->visited(); }
  double patience_s() const override { return timeout_s_.load(std::memory_order_relaxed); }
  void give_up(double waited_s, const std::string& place) override;

 private:
  std::string call_under_way() const;

  const int rank_;
  const std::shared_ptr<Router> router_;
  const CallLog& log_;
  std::atomic<double> timeout_s_;
  std::atomic<bool> given_up_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::string why_;
  std::weak_ptr<GpuExecutor> executor_;
  std::vector<std::weak_ptr<Work>> works_;  // some may be done
};

}  // namespace lanecast
