// SPDX-License-Identifier: Apache-2.0
// Who may call a communicator now: one thread at a time, none of a forked process, none in a signal's handler, and
// nobody once it was aborted or has failed.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/failure.h"
#include "runtime/communicator/ground.h"

namespace lanecast {

class Gate {
 public:
  /// Of what all parts of the communicator hold, while one drives it: the caller or the progress thread.
  using Lock = std::unique_lock<std::timed_mutex>;

  explicit Gate(const Ground& ground) : ground_(ground) {}
  /// Hears, in the thread that comes in, that a library keeps the thread that moves messages.
  void when_given_up(std::function<void(const Failure&)> fail) { given_up_ = std::move(fail); }

  /// Ahead of the progress thread, which takes the lock again at once for as long as messages move. Throws UsageError
  /// where this thread has it already, in ask(), and in a forked process; what `interrupt` throws while another
  /// thread's call has it; and TimeoutError where a library keeps the thread that has it.
  Lock enter(const Interrupt& interrupt = {});
  /// For whoever has let go of the lock in between.
  void enter_again(Lock& lock, const Interrupt& interrupt);
  /// Without waiting, for whoever moves calls: owns nothing where somebody else is in.
  Lock try_enter() { return Lock(mutex_, std::try_to_lock); }
  /// For a look, of which the call of another thread need not hear: owns nothing where that one stays in.
  Lock try_enter_soon();
  /// Does a caller want in? Relaxed: a hint that orders nothing; the lock does.
  bool is_wanted() const { return callers_.load(std::memory_order_relaxed) > 0; }
  /// One caller at a time enqueues work on the GPU. Comes before enter(), and throws what that does with the
  /// communicator's own `interrupt`.
  Lock enter_queue();
  /// What the watch has found becomes the communicator's failure.
  void heed_watch();

  /// Looks at what the user wants, while this thread is in; throws to end the wait. A signal's handler may run in it
  /// and call anything: close() is heard here, other calls are refused.
  void ask(const Interrupt& interrupt);
  /// Is this thread in ask()?
  bool is_asking() const;

  /// The program takes the communicator back: a blocking call, whose thread is in, ends by AbortedError.
  void close(const std::string& why);
  /// What close() has it say.
  static std::string aborted(const std::string& why);

  /// It has failed, once and for all.
  void shut(const Failure& failure) { failure_ = failure; }
  const Failure& failure() const { return failure_; }
  void refuse_if_failed() const;
  /// What a thread of ours would have to move, where there may be none.
  void refuse_without_threads() const;

 private:
  void refuse_entry() const;
  void take(Lock& lock, const Interrupt& interrupt) const;
  void refuse_if_closed();

  const Ground& ground_;
  std::function<void(const Failure&)> given_up_;
  std::atomic<int> callers_ = 0;  // that want in; the progress thread lets them
  std::mutex reason_mutex_;       // guards reason_
  std::string reason_;            // of close()
  std::atomic<bool> closed_ = false;
  std::atomic<std::thread::id> asking_thread_;  // in ask()
  std::timed_mutex queue_mutex_;                // taken before mutex_
  std::timed_mutex mutex_;                      // guards what follows, and what the other parts have
  Failure failure_;
};

}  // namespace lanecast
