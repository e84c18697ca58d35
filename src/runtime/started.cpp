// SPDX-License-Identifier: Apache-2.0
// Calls that were started: they wait their turn, and the progress thread moves the first of them.
#include "runtime/started.h"

namespace lanecast {

std::unique_lock<std::mutex> Communicator::enter() {
  // Relaxed: a hint that orders nothing; mutex_ does.
  callers_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  callers_.fetch_sub(1, std::memory_order_relaxed);
  return lock;
}

std::shared_ptr<Work> Communicator::start(const Call& call) {
  std::shared_ptr<Work> work;
  {
    std::unique_lock lock = enter();
    refuse_without_threads();
    auto started = std::make_unique<Started>();
    started->execution = prepare(call, lock);
    started->in = static_cast<const std::byte*>(call.in);
    started->out = static_cast<std::byte*>(call.out);
    work = started->work;
    started_.push_back(std::move(started));
  }
  hand_to_thread();
  return work;
}

void Communicator::hand_to_thread() {
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
    if (!work.done()) {  // interrupted
      const std::unique_lock lock = enter();
      fail(failure_of(error));
    }
    throw;
  }
}

bool Communicator::has_started() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || !started_.empty() || !batches_.empty();
}

bool Communicator::advance_started() {
  if (callers_.load(std::memory_order_relaxed) > 0) return false;  // see enter()
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a caller inside run() must not hold up other communicators
  if (!lock.owns_lock()) return false;
  if (started_.empty()) return advance_batches();
  Started& call = *started_.front();
  try {
    bool moved = true;
    if (!call.running) {
      call.running = true;
      last_look_ = std::chrono::steady_clock::now();
      begin(*call.execution, call.in, call.out);
    } else {
      moved = advance(*call.execution);
    }
    if (moved)
      call.last_progress = std::chrono::steady_clock::now();
    else
      look_around(*call.execution, call.last_progress, {});
    if (call.execution->finished()) {
      log_.end(CallState::done);
      call.work->finish(nullptr);
      started_.pop_front();
    }
    if (!moved) look_after_batches();  // moved together with it
    return moved;
  } catch (const std::exception& error) {
    // Peers may be reading the call's buffers until fail() returns, and whoever waits for it frees them when it is
    // done.
    const std::exception_ptr why = std::current_exception();
    const std::unique_ptr<Started> failed = std::move(started_.front());
    started_.pop_front();
    plans_->keep(failed->execution);
    fail(failure_of(error));
    failed->work->finish(why);
    return true;
  }
}

void Communicator::give_up_started() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // held: by a blocking call, which runs when there is none
  if (lock.owns_lock() && !(started_.empty() && batches_.empty()))
    fail({FailureKind::user, "the process is ending while calls are under way"});
}

void Communicator::drain(std::unique_lock<std::mutex>& lock) {
  while (!started_.empty()) {
    const auto last = started_.back()->work;
    lock.unlock();
    last->wait_done();
    lock.lock();
  }
  refuse_if_failed();
}

}  // namespace lanecast
