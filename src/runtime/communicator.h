// SPDX-License-Identifier: Apache-2.0
// The ranks that call collectives together: what users hold.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/call.h"
#include "runtime/options.h"
#include "runtime/patience.h"
#include "runtime/plan_cache.h"
#include "runtime/surroundings.h"
#include "runtime/work.h"

namespace lanecast {

/// Looks whether the user wants to stop (Ctrl-C); throws to end the wait.
using Interrupt = std::function<void()>;

class Communicator {
 public:
  /// Collective. `progress` may serve other communicators as well.
  Communicator(Surroundings surroundings, CommunicatorOptions options, std::shared_ptr<ProgressThread> progress);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return around_.bootstrap.rank; }
  int size() const { return around_.bootstrap.size; }
  const Topology& topology() const { return topology_; }
  std::string transports() const { return router_->str(); }
  std::string transport_to(int peer) const;
  int hosts() const;
  const CommunicatorOptions& options() const { return options_; }

  /// Blocks until this rank's buffers may be used again. Throws UsageError before any data moves; after any other error
  /// the communicator has failed and every further call says so.
  void run(const Call& call, const Interrupt& interrupt = {});

  /// Returns at once. Calls on one communicator run in the order in which they were made.
  std::shared_ptr<Work> start(const Call& call);
  static void wait(Work& work, const Interrupt& interrupt = {});

  /// Ranks that give the same color become a communicator, ordered by key, then by rank. Collective; a negative color
  /// takes no part and gets null.
  std::unique_ptr<Communicator> split(int color, int key);

  /// Fails the communicator, so that its peers need not wait for a rank that will make no more calls.
  void abort(const std::string& why);

  /// What would run: algorithm and chunks after all defaults.
  Choice chosen(const Call& call) const;
  /// What could, by predicted time.
  std::vector<Choice> candidates(const Call& call) const;

  /// From now on every rank chooses by rank 0's models, unless they are empty; those of others are not looked at.
  /// Collective, while no started call is under way. A `refusal` of rank 0 ("profile p.json: …") is thrown on all ranks.
  void adopt(const Models& models, const std::string& refusal);
  const Models& models() const { return models_; }

 private:
  friend class ProgressThread;
  struct Started;

  std::shared_ptr<Execution> prepare(const Call& call, std::unique_lock<std::mutex>& lock);
  /// Waits for all started calls, without the lock.
  void drain(std::unique_lock<std::mutex>& lock);
  void drive(Execution& execution, const Interrupt& interrupt);
  std::unique_ptr<Communicator> make_child(int color, int key);
  bool advance_started();
  bool has_started();

  /// Looks at the user's wishes, the peers and the deadline, at most every few milliseconds; throws to give up.
  void look_around(const Execution& execution, std::chrono::steady_clock::time_point last_progress,
                   const Interrupt& interrupt);
  [[noreturn]] void give_up(const Execution& execution, int peer, const Loss& loss);
  std::string describe_wait(const Execution& execution, int peer) const;
  void fail(const Failure& why);
  void refuse_if_failed() const;

  Surroundings around_;
  CommunicatorOptions options_;
  Topology topology_;
  std::shared_ptr<Router> router_;
  Models models_;         // equal on every rank
  bool crowded_ = false;  // more ranks than cores on some host
  std::shared_ptr<ProgressThread> progress_;
  std::uint64_t splits_ = 0;

  std::mutex mutex_;  // one driver at a time, the caller or the progress thread; guards what follows
  std::unique_ptr<PlanCache> plans_;
  std::uint64_t calls_ = 0;
  Failure failure_;
  Failure cause_;  // what peers hear of the failure, where that is not the failure itself
  std::deque<std::unique_ptr<Started>> started_;
  std::chrono::steady_clock::time_point last_look_;
};

}  // namespace lanecast
