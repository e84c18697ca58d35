// SPDX-License-Identifier: Apache-2.0
// The thread that moves calls nobody is waiting for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/own_process.h"
#include "runtime/watch/patience.h"
#include "runtime/watch/watch.h"

namespace lanecast {

/// What there is for the thread to do.
enum class ThreadWork : std::uint8_t {
  none,
  listens,  // nothing now, and a device may begin something of which nobody says a word
  some,
};

/// What the thread moves: of one communicator.
class Moved {
 public:
  virtual ~Moved() = default;
  virtual int rank() const = 0;
  virtual Watched& watched() = 0;
  /// A round; true when something has moved.
  virtual bool advance() = 0;
  /// What is under way, or may be? Asked once more when is_moved has been taken back.
  virtual ThreadWork work() = 0;
  /// Nobody moves it any more: what is under way fails, so that no wait for it lasts.
  virtual void give_up() = 0;

  std::atomic<bool> is_moved = false;  // the thread looks for its calls
};

/// Serves any number of communicators. Starts with the first call, sleeps while there is none.
class ProgressThread {
 public:
  ~ProgressThread() { stop(std::chrono::seconds(0)); }
  /// Also by the thread itself, for whom it is driving. Throws UsageError after stop().
  void add(Moved& moved);
  /// A call was made, of someone whom the thread looks for already: it need not end its nap first.
  void wake() {
    // Relaxed: who comes between a look and the nap waits for the end of that, 1 ms at most.
    if (naps_.load(std::memory_order_relaxed)) sleeper_->call_made.notify_all();
  }
  /// Gives the calls under way some time to finish and ends the thread: to be called before the libraries that it uses
  /// end, MPI above all.
  void stop(std::chrono::duration<double> grace);
  /// Of those who share this thread, is this the first one to say that?
  bool is_first(const std::string& words);
  /// Returns when the thread does not touch it any more.
  void remove(Moved& moved);

 private:
  using Lock = std::unique_lock<std::timed_mutex>;  // of mutex_
  void run();
  /// What it has to do; none: whoever starts a call will add it again.
  static ThreadWork work_of(Moved& moved);
  /// Where nothing has moved, with mutex_ let go of.
  void pause(Lock& lock, bool listens);
  /// Locks mutex_, ahead of the thread's next round.
  Lock enter();
  /// The same for a call of this rank's, but throws TimeoutError where a library keeps the thread.
  Lock enter_unless_stuck(int rank);

  // Whoever wants mutex_ holds the entrance meanwhile, and the thread passes through it between two rounds: else it
  // would take mutex_ again at once for as long as messages move.
  std::timed_mutex entrance_;
  std::timed_mutex mutex_;  // guards everything below; held while communicators are driven
  std::vector<Moved*> active_;
  std::atomic<std::thread::id> thread_id_;
  bool stop_ = false;
  std::atomic<bool> naps_ = false;    // for longer than calls under way should wait
  bool listens_ = false;              // all of them do no more than that
  Patience patience_{Rivals::ranks};  // the thread's; one that spins would take a core from the program it serves
  std::chrono::steady_clock::time_point moved_;  // when something did, as far as it matters
  struct Sleeper {
    std::condition_variable_any call_made;
    std::condition_variable_any idle;  // no call is under way any more
    Watch watch;                       // over the thread
    std::thread thread;
  };
  std::unique_ptr<Sleeper> sleeper_ = std::make_unique<Sleeper>();
  std::mutex said_mutex_;  // guards said_
  std::set<std::string> said_;
  OwnProcess process_;
};

}  // namespace lanecast
