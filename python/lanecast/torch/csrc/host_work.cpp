// SPDX-License-Identifier: Apache-2.0
#include "host_work.h"

#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <utility>

#include "engine.h"
#include "errors.h"
#include "finisher.h"
#include "process_end.h"
#include "signals.h"

namespace lanecast_torch {

/// Keeps the work until its call is done.
struct HostWork::Listener {
  c10::intrusive_ptr<HostWork> work;
  std::function<void(lanecastResult_t)> when_done;

  static void hear(lanecastResult_t result, const char* text, void* held) {
    const std::unique_ptr<Listener> listener(static_cast<Listener*>(held));
    listener->when_done(result);
    listener->work->ended(exception_for(result, text));
  }
};

int HostWork::sourceRank() const {
  TORCH_CHECK(source_ >= 0, "lanecast: only the work of a receive knows a source rank");
  return source_;
}

bool HostWork::wait(std::chrono::milliseconds timeout) {
  const Blocks blocks;
  using Clock = std::chrono::steady_clock;
  const auto deadline = timeout == kNoTimeout ? Clock::time_point::max() : Clock::now() + timeout;
  if (!ends_by(deadline))
    check(lanecastTimeoutError, "rank " + std::to_string(rank_) + " waited " + std::to_string(timeout.count()) +
                                    " ms for " + awaited() + "; this wait has timed out, and the call goes on");
  return c10d::Work::wait(kNoTimeout);
}

bool HostWork::ends_by(std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  while (!cv_.wait_until(lock, std::min(deadline, Clock::now() + kBetweenSignals), [this] { return completed_; })) {
    if (Clock::now() >= deadline) return false;
    lock.unlock();
    try {
      Signals::hear();
    } catch (...) {
      abandon();
      throw;
    }
    lock.lock();
  }
  return true;
}

void HostWork::abandon() {
  const std::lock_guard lock(calls_mutex_);
  if (const auto engine = engine_.lock())
    for (lanecastWork_t call : calls_) engine->abandon(call);
}

std::string HostWork::awaited() {
  const std::lock_guard lock(calls_mutex_);
  if (const auto engine = engine_.lock())
    for (lanecastWork_t call : calls_)
      if (std::string text = engine->waits_for(call); !text.empty()) return text;
  return calls_.empty() ? "a message from any rank" : "its last steps";
}

void HostWork::launch(const std::function<void(Work&)>& start) {
  try {
    start(*this);
  } catch (const pybind11::error_already_set&) {
    // A handler's, for the caller: nobody else is to hold what is Python's.
    launched(exception_for(lanecastTransportError, "a signal's handler has ended the wait"));
    throw;
  } catch (...) {
    launched(std::current_exception());
    throw;
  }
  launched();
}

void HostWork::start(Engine& engine, const lanecastCall_t& call, std::chrono::milliseconds timeout) {
  if (blocking_)
    engine.run(call, timeout);
  else
    engine.start(*this, call, timeout);
}

void HostWork::add(lanecastWork_t started, std::weak_ptr<Engine> of, std::function<void(lanecastResult_t)> when_done) {
  // Relaxed: what the call's end reads is handed over by the core's own lock.
  pending_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(calls_mutex_);
    calls_.push_back(started);
    engine_ = std::move(of);
  }
  auto listener = std::make_unique<Listener>();
  listener->work = c10::intrusive_ptr<HostWork>::reclaim_copy(this);
  listener->when_done = std::move(when_done);
  lanecastOnDone(started, &Listener::hear, listener.release());
}

void HostWork::launched(std::exception_ptr error) { ended(std::move(error)); }

void HostWork::ended(std::exception_ptr error) {
  if (error) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::move(error);
  }
  // Release and acquire: the last one sees the errors and the calls of all.
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (timed_) end_ = std::chrono::steady_clock::now();
  // The quick way to those who wait. The rest, which may want Python's lock, is for another thread.
  if (blocking_) return settle();  // here, where nobody else has the work yet
  if (on_arrival_.empty()) finish(error_);
  Finisher::instance().push([self = c10::intrusive_ptr<HostWork>::reclaim_copy(this)] { self->settle(); });
}

void HostWork::settle() {
  if (blocking_ || !on_arrival_.empty()) {
    try {
      if (!error_) arrive();
    } catch (...) {
      error_ = std::current_exception();
    }
    finish(error_);
  }
  {
    const std::lock_guard lock(calls_mutex_);
    for (lanecastWork_t call : std::exchange(calls_, {})) lanecastWait(call);
  }
  on_arrival_.clear();
  kept_.clear();
  if (error_)
    future_->setError(error_);
  else
    future_->markCompleted(c10::IValue(outputs_));
  conclude(error_);
}

float HostWork::measured_until(const Work& last) const {
  const auto& other = static_cast<const HostWork&>(last);
  const std::lock_guard lock(other.mutex_);
  TORCH_CHECK(other.completed_, "lanecast: getDuration: this call is still under way");
  return std::chrono::duration<float, std::milli>(other.end_ - begin_).count();
}

}  // namespace lanecast_torch
