// SPDX-License-Identifier: Apache-2.0
// A call under way, and the thread that moves calls nobody is waiting for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/own_process.h"

namespace lanecast {

class Communicator;

/// State of one started call, shared by its caller and the progress thread.
class Work {
 public:
  using Listener = std::function<void()>;

  void finish(std::exception_ptr error) {
    Listener listener;
    {
      const std::lock_guard lock(mutex_);
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
    changed_.wait(lock, [this] { return done_; });
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

/// Serves any number of communicators. Starts with the first call, sleeps while there is none.
class ProgressThread {
 public:
  ~ProgressThread() { stop(std::chrono::seconds(0)); }
  /// Also by the thread itself, for whom it is driving. Throws UsageError after stop().
  void add(Communicator& communicator);
  /// Gives the calls under way some time to finish and ends the thread: to be called before the libraries that it uses
  /// end, MPI above all.
  void stop(std::chrono::duration<double> grace);
  /// Returns when the thread does not touch the communicator any more.
  void remove(Communicator& communicator);

 private:
  void run();
  /// Has it no call under way, and will whoever starts one add it again?
  static bool lets_go(Communicator& communicator);
  /// Locks mutex_, ahead of the thread's next round.
  std::unique_lock<std::mutex> enter();

  // Whoever wants mutex_ holds the entrance meanwhile, and the thread passes through it between two rounds: else it
  // would take mutex_ again at once for as long as messages move.
  std::mutex entrance_;
  std::mutex mutex_;  // guards everything below; held while communicators are driven
  std::vector<Communicator*> active_;
  std::atomic<std::thread::id> thread_id_;
  bool stop_ = false;
  struct Sleeper {
    std::condition_variable call_made;
    std::condition_variable idle;  // active_ has become empty
    std::thread thread;
  };
  std::unique_ptr<Sleeper> sleeper_ = std::make_unique<Sleeper>();
  OwnProcess process_;
};

}  // namespace lanecast
