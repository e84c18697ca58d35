// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/gate.h"

#include <chrono>

#include "base/error.h"

namespace lanecast {
namespace {

/// Looks before a thread sleeps for the lock, some 10 us: a round of the thread that moves messages takes less, and to
/// be woken takes as long. Only where ranks have cores of their own.
constexpr int kLooksAwake = 200;

}  // namespace

bool Gate::is_asking() const {
  return asking_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id();  // see ask()
}

void Gate::refuse_entry() const {
  if (!ground_.process.here())
    throw UsageError("rank " + std::to_string(ground_.rank()) +
                     ": this process was forked from the one that made the communicator, and only that one can use it; "
                     "start processes by spawn, or make a communicator of their own");
  if (is_asking())
    throw UsageError("rank " + std::to_string(ground_.rank()) +
                     ": a signal's handler runs inside a call of this communicator, which takes no other before that "
                     "one returns; let the handler set a flag, raise, or call abort()");
}

Gate::Lock Gate::enter(const Interrupt& interrupt) {
  refuse_entry();
  callers_.fetch_add(1, std::memory_order_relaxed);  // see is_wanted()
  const struct Called {
    std::atomic<int>& callers;
    ~Called() { callers.fetch_sub(1, std::memory_order_relaxed); }
  } called{callers_};
  Lock lock(mutex_, std::try_to_lock);  // first: it does not look at the clock
  if (!lock) take(lock, interrupt);
  heed_watch();
  return lock;
}

void Gate::enter_again(Lock& lock, const Interrupt& interrupt) {
  take(lock, interrupt);
  heed_watch();
}

Gate::Lock Gate::try_enter_soon() { return Lock(mutex_, std::chrono::system_clock::now() + kLookEvery); }

Gate::Lock Gate::enter_queue() {
  refuse_entry();
  Lock queue(queue_mutex_, std::try_to_lock);
  if (!queue) take(queue, ground_.options.interrupt);
  return queue;
}

void Gate::take(Lock& lock, const Interrupt& interrupt) const {
  for (int looks = ground_.rivals == Rivals::none ? kLooksAwake : 0; looks > 0; --looks) {
    relax();
    if (lock.try_lock()) return;
  }
  // By the system's clock: g++ 12's thread sanitizer does not see what is locked by another.
  while (!lock.try_lock_until(std::chrono::system_clock::now() + kLookEvery)) {
    if (interrupt) interrupt();
    ground_.shown.refuse_if_given_up();
  }
}

void Gate::heed_watch() {
  if (failure_) return;
  try {
    ground_.shown.refuse_if_given_up();
  } catch (const TimeoutError& error) {
    given_up_(failure_of(error));
  }
}

void Gate::ask(const Interrupt& interrupt) {
  if (interrupt) {
    // Relaxed: only this thread finds its own id.
    asking_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    const struct Asked {
      std::atomic<std::thread::id>& thread;
      ~Asked() { thread.store({}, std::memory_order_relaxed); }
    } asked{asking_thread_};
    interrupt();
  }
  refuse_if_closed();
}

std::string Gate::aborted(const std::string& why) {
  return "this communicator was aborted and takes no more calls: " + why;
}

void Gate::close(const std::string& why) {
  {
    const std::lock_guard lock(reason_mutex_);
    if (reason_.empty()) reason_ = why;
  }
  closed_.store(true, std::memory_order_release);  // pairs with refuse_if_closed()
}

void Gate::refuse_if_closed() {
  if (!closed_.load(std::memory_order_acquire)) return;  // pairs with close()
  const std::lock_guard lock(reason_mutex_);
  throw AbortedError(aborted(reason_));
}

void Gate::refuse_if_failed() const {
  if (failure_)
    throw TransportError("rank " + std::to_string(ground_.rank()) +
                         ": this communicator has failed and takes no more calls; " +
                         "make a new one. It failed because: " + failure_.text);
}

void Gate::refuse_without_threads() const {
  if (const std::string why = threads_refused(ground_.around); !why.empty())
    throw UsageError("rank " + std::to_string(ground_.rank()) + ": an asynchronous call " + why);
}

}  // namespace lanecast
