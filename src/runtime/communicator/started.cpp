// SPDX-License-Identifier: Apache-2.0
// Calls that were started: they wait their turn, and the progress thread moves the first of them.
#include "runtime/communicator/started.h"

#include "runtime/agree/wait_chain.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/shown.h"

namespace lanecast {
namespace {

/// A call up to where it has its groups.
class Opening final : public UnderWay {
 public:
  explicit Opening(Execution& execution) : execution_(execution) {}
  bool advance() override { return execution_.advance(); }
  bool finished() const override { return execution_.has_groups(); }
  std::string waiting_for(int peer) const override { return execution_.waiting_for(peer); }
  std::vector<int> awaited_peers() const override { return execution_.awaited_peers(); }
  bool awaits_message(int peer) const override { return execution_.awaits_message(peer); }
  /// Its end, not that of the call: the caller may then send before it waits for that.
  Needs needs(int peer) const override { return execution_.calls_roll_of(peer) ? Needs::yes : Needs::no; }

 private:
  Execution& execution_;
};

}  // namespace

bool Communicator::is_asking() const {
  return asking_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();  // see ask()
}

void Communicator::refuse_entry() const {
  if (!process_.here())
    throw UsageError("rank " + std::to_string(rank()) +
                     ": this process was forked from the one that made the communicator, and only that one can use it; "
                     "start processes by spawn, or make a communicator of their own");
  if (is_asking())
    throw UsageError("rank " + std::to_string(rank()) +
                     ": a signal's handler runs inside a call of this communicator, which takes no other before that "
                     "one returns; let the handler set a flag, raise, or call abort()");
}

Communicator::Lock Communicator::enter(const Interrupt& interrupt) {
  refuse_entry();
  // Relaxed: a hint that orders nothing; mutex_ does.
  callers_.fetch_add(1, std::memory_order_relaxed);
  const struct Called {
    std::atomic<int>& callers;
    ~Called() { callers.fetch_sub(1, std::memory_order_relaxed); }
  } called{callers_};
  Lock lock(mutex_, std::defer_lock);
  take(lock, interrupt);
  heed_watch();
  return lock;
}

void Communicator::take(Lock& lock, const Interrupt& interrupt) const {
  if (lock.try_lock()) return;  // first: it does not look at the clock
  // By the system's clock: g++ 12's thread sanitizer does not see what is locked by another.
  while (!lock.try_lock_until(std::chrono::system_clock::now() + kLookEvery)) {
    if (interrupt) interrupt();
    shown_->refuse_if_given_up();
  }
}

void Communicator::heed_watch() {
  if (failure_) return;
  try {
    shown_->refuse_if_given_up();
  } catch (const TimeoutError& error) {
    fail(failure_of(error));
  }
}

void Communicator::queue(const std::shared_ptr<Started>& call) {
  shown_->starts(call->work);
  started_.push_back(call);
}

std::shared_ptr<Communicator::Started> Communicator::bind(const Call& call) {
  auto bound = std::make_shared<Started>();
  bound->execution = prepare(call);
  bound->in = static_cast<const std::byte*>(call.in);
  bound->out = static_cast<std::byte*>(call.out);
  return bound;
}

void Communicator::open_groups(Started& call, Lock& lock, const Interrupt& interrupt) {
  if (call.execution->has_groups()) return;
  drain(lock, interrupt);
  or_fail(call.execution, [&] {
    begin(*call.execution, call.in, call.out);
    Opening opening(*call.execution);
    drive(opening, interrupt);
  });
  call.running = true;
  call.deadline.last_progress = std::chrono::steady_clock::now();
}

std::shared_ptr<Work> Communicator::start(const Call& call, const Interrupt& interrupt) {
  std::shared_ptr<Started> started;
  {
    std::unique_lock lock = enter();
    refuse_without_threads();
    started = bind(call);
    started->deadline.timeout_s = timeout_s_;
    open_groups(*started, lock, interrupt);
    queue(started);
  }
  hand_to_thread();
  return started->work;
}

void Communicator::run_beside_others(const Call& call, std::optional<double> timeout_s, const Interrupt& interrupt) {
  if (timeout_s) check_timeout(*timeout_s);
  std::shared_ptr<Started> started;
  {
    std::unique_lock lock = enter(interrupt);
    started = bind(call);
    started->deadline.timeout_s = timeout_s.value_or(timeout_s_);
    open_groups(*started, lock, interrupt);
    queue(started);
  }
  advance_until_done(*started->work, interrupt);
}

void Communicator::advance_until_done(Work& work, const Interrupt& interrupt) {
  // Programs of several threads have more than cores at times. Of two ranks on one core, each would wait for the other
  // to have spun: 220 us instead of 7 for a small call.
  Patience patience(rivals_ == Rivals::none ? Rivals::ranks : rivals_);
  std::optional<std::chrono::steady_clock::time_point> asked;  // a short call never looks at the clock
  while (!work.done()) {
    if (advance_started()) {
      patience.reset();
    } else if (patience.pause() && interrupt) {
      const auto now = std::chrono::steady_clock::now();
      if (!asked) asked = now;
      if (now - *asked < kLookEvery) continue;
      asked = now;
      try {
        interrupt();
      } catch (const std::exception& error) {
        fail_if_interrupted(work, error);
        throw;
      }
    }
  }
  work.wait_for(std::chrono::seconds(0));
}

void Communicator::start(const std::shared_ptr<Started>& call, const Interrupt& interrupt) {
  {
    std::unique_lock lock = enter();
    refuse_without_threads();
    refuse_if_failed();
    if (!call->work->done())
      throw UsageError("rank " + std::to_string(rank()) + ": start: this call is under way; wait for it first");
    call->running = false;
    call->deadline.timeout_s = timeout_s_;
    open_groups(*call, lock, interrupt);
    call->work->restart();
    queue(call);
  }
  hand_to_thread();
}

void Communicator::run(const std::shared_ptr<Started>& call, const Interrupt& interrupt) {
  {
    const std::unique_lock lock = enter(interrupt);
    refuse_if_failed();
    if (started_.empty()) return run_now(call->execution, call->in, call->out, interrupt);
  }
  start(call, interrupt);
  wait_or_fail(*call->work, interrupt);
}

void Communicator::hand_to_thread() {
  // Where it does already, no caller waits for its round to end. The thread takes this back before it looks for calls
  // for the last time, and a call is started before this is asked, so one of the two sees the other. Sequentially
  // consistent: that look may fail to get mutex_, which a caller holds, and orders nothing then.
  if (is_moved_) return;
  try {
    progress_->add(*this);
  } catch (const UsageError&) {
    give_up_started();
    throw;
  }
}

void Communicator::refuse_without_threads() const {
  if (const std::string why = threads_refused(around_); !why.empty())
    throw UsageError("rank " + std::to_string(rank()) + ": an asynchronous call " + why);
}

void Communicator::wait(Work& work, const Interrupt& interrupt) {
  while (!work.wait_for(kLookEvery))
    if (interrupt) interrupt();
}

void Communicator::wait_or_fail(Work& work, const Interrupt& interrupt) {
  try {
    wait(work, interrupt);
  } catch (const std::exception& error) {
    fail_if_interrupted(work, error);
    throw;
  }
}

void Communicator::fail_if_interrupted(Work& work, const std::exception& error) {
  if (work.done()) return;  // it is the call's own
  const std::unique_lock lock = enter();
  fail(failure_of(error));
}

std::string Communicator::waits_for(const Work& work) {
  // Not by enter(), and not for long: a call of another thread may hold mutex_ until its peers come.
  const Lock lock(mutex_, std::chrono::system_clock::now() + kLookEvery);
  if (!lock) return log_.waiting();
  const auto told = [this](const UnderWay& call) {
    return names_of(call.awaited_peers()) + " in " + describe_wait(call, -1);
  };
  for (const auto& batch : batches_)
    if (batch->work.get() == &work && !batch->finished()) return told(*batch);
  for (const auto& call : started_) {
    if (call->work.get() != &work) continue;
    if (!started_.front()->running) return "its turn";
    return (call == started_.front() ? "" : "the call before it, which waits for ") + told(started_.front()->call());
  }
  return {};
}

bool Communicator::has_started() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || !started_.empty() || !batches_.empty() || telling_;
}

bool Communicator::advance_started() {
  if (callers_.load(std::memory_order_relaxed) > 0) return false;  // see enter()
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a caller inside run() must not hold up other communicators
  if (!lock.owns_lock()) return false;
  heed_watch();
  ran_.look(timeout_s_);  // before anything that begins to wait now
  if (telling_) {
    if (ran_.seconds_since(telling_->last_progress) > telling_->timeout_s || !router_->tell()) telling_.reset();
  }
  if (started_.empty()) return advance_batches();
  const std::shared_ptr<Started> front = started_.front();  // its caller may let go of it meanwhile
  Started& call = *front;
  shown_->waits_for(call.deadline.timeout_s);
  try {
    bool moved = true;
    if (!call.running) {
      call.running = true;
      last_look_ = std::chrono::steady_clock::now();
      begin(call.call(), call.in, call.out);
    } else {
      moved = advance(call.call());
    }
    if (call.call().on_hold()) heed_at(trace_clock_ns(), [] { return "work on GPUs"; });
    if (moved || call.call().on_hold())
      call.deadline.last_progress = std::chrono::steady_clock::now();
    else
      look_around(call.call(), call.deadline, {}, Caller::free);
    if (call.call().finished()) {
      if (call.on_gpu)
        log_.end();  // nothing is predicted of it
      else
        end(*call.execution);
      call.work->finish(nullptr);
      started_.erase(started_.begin());
    }
    if (!moved) look_after_batches();  // moved together with it
    return moved;
  } catch (const std::exception& error) {
    // Peers may be reading the call's buffers until fail() returns, and whoever waits for it frees them when it is
    // done.
    const std::exception_ptr why = std::current_exception();
    started_.erase(started_.begin());
    plans_->keep(call.shared());
    fail(failure_of(error));
    call.work->finish(why);
    return true;
  }
}

void Communicator::give_up_started() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // held: by a blocking call, which runs when there is none
  if (lock.owns_lock() && !(started_.empty() && batches_.empty()))
    fail({FailureKind::user, "the process is ending while calls are under way"});
}

void Communicator::drain(Lock& lock, const Interrupt& interrupt) {
  while (!started_.empty()) {
    const auto last = started_.back()->work;
    lock.unlock();
    while (!last->is_done_within(kLookEvery))
      if (interrupt) interrupt();
    take(lock, interrupt);
    heed_watch();
  }
  refuse_if_failed();
}

}  // namespace lanecast
