// SPDX-License-Identifier: Apache-2.0
// Calls that were started: they wait their turn, and the progress thread moves the first of them.
#include "runtime/started.h"

namespace lanecast {

std::shared_ptr<Communicator::Started> Communicator::bind(const Call& call, std::unique_lock<std::mutex>& lock) {
  auto bound = std::make_shared<Started>();
  bound->execution = prepare(call, lock);
  bound->in = static_cast<const std::byte*>(call.in);
  bound->out = static_cast<std::byte*>(call.out);
  return bound;
}

std::shared_ptr<Work> Communicator::start(const Call& call) {
  std::shared_ptr<Started> started;
  {
    std::unique_lock lock(mutex_);
    refuse_without_threads();
    started = bind(call, lock);
    started_.push_back(started);
  }
  progress_->add(*this);
  return started->work;
}

void Communicator::start(const std::shared_ptr<Started>& call) {
  {
    const std::lock_guard lock(mutex_);
    refuse_without_threads();
    refuse_if_failed();
    if (!call->work->done())
      throw UsageError("rank " + std::to_string(rank()) + ": start: this call is under way; wait for it first");
    call->work->restart();
    call->running = false;
    started_.push_back(call);
  }
  progress_->add(*this);
}

void Communicator::run(const std::shared_ptr<Started>& call, const Interrupt& interrupt) {
  {
    const std::lock_guard lock(mutex_);
    refuse_if_failed();
    if (started_.empty()) {
      ++calls_;
      call->execution->start(call->in, call->out);
      return drive(*call->execution, interrupt);
    }
  }
  start(call);
  wait_or_fail(*call->work, interrupt);
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
      const std::lock_guard lock(mutex_);
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
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a caller inside run() must not hold up other communicators
  if (!lock.owns_lock()) return false;
  if (started_.empty()) return advance_batches();
  const std::shared_ptr<Started> front = started_.front();  // its caller may let go of it meanwhile
  Started& call = *front;
  try {
    bool moved = true;
    if (!call.running) {
      ++calls_;
      call.running = true;
      last_look_ = std::chrono::steady_clock::now();
      call.execution->start(call.in, call.out);
    } else {
      moved = call.execution->advance();
    }
    if (moved)
      call.last_progress = std::chrono::steady_clock::now();
    else
      look_around(*call.execution, call.last_progress, {});
    if (call.execution->finished()) {
      call.work->finish(nullptr);
      started_.erase(started_.begin());
    }
    if (!moved) look_after_batches();  // moved together with it
    return moved;
  } catch (const std::exception& error) {
    const auto why = std::current_exception();
    call.work->finish(why);
    started_.erase(started_.begin());
    fail(failure_of(error));
    return true;
  }
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
