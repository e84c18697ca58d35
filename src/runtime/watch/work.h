// SPDX-License-Identifier: Apache-2.0
// A call under way, as its caller waits for it.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "base/endless_wait.h"

namespace lanecast {

/// State of one started call, shared by its caller and the progress thread.
class Work {
 public:
  using Listener = std::function<void()>;

  void finish(std::exception_ptr error) {
    Listener listener;
    {
      const std::lock_guard lock(mutex_);
      if (done_) return;  // it was given up
      done_ = true;
      error_ = std::move(error);
      changed_.notify_all();
      listener.swap(listener_);
    }
    // It may let go of this object, so nothing of it is touched from here on.
    if (listener) listener();
  }

  /// `listener` is called once, when the call is done: by the thread that finishes it, or at once.
  void on_done(Listener listener) {
    {
      const std::lock_guard lock(mutex_);
      if (!done_) {
        listener_ = std::move(listener);
        return;
      }
    }
    listener();
  }

  /// For a call that is made once more.
  void restart() {
    const std::lock_guard lock(mutex_);
    done_ = false;
    error_ = nullptr;
  }

  /// Waits up to `span`; true when done. Throws the call's error.
  template <class Duration>
  bool wait_for(Duration span) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, span, [this] { return done_; });
    if (done_ && error_) std::rethrow_exception(error_);
    return done_;
  }

  void wait_done() {
    std::unique_lock lock(mutex_);
    wait_without_end(changed_, lock, [this] { return done_; });
  }

  /// Waits up to `span` and throws nothing.
  template <class Duration>
  bool is_done_within(Duration span) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] { return done_; });
  }

  bool done() {
    const std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  Listener listener_;
};

}  // namespace lanecast
