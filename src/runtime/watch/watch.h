// SPDX-License-Identifier: Apache-2.0
// Who looks after the thread that moves messages: kept by a library below for longer than the deadline, it cannot look
// itself. A thread of its own sleeps and looks in ticks, so that a job that was suspended as a whole has not waited.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lanecast {

/// What moves messages, as another thread sees it. All of it at any time, by any thread.
class Watched {
 public:
  virtual ~Watched() = default;
  /// Grows as a thread goes into a library below, and as it comes back: odd while it is there.
  virtual std::uint64_t visits() const = 0;
  /// In which one, for people.
  virtual std::string place() const = 0;
  /// How long one may keep it.
  virtual double patience_s() const = 0;
  /// It has kept a thread for longer, `place` says where: this one's messages do not move.
  virtual void give_up(double waited_s, const std::string& place) = 0;
};

class Watch {
 public:
  ~Watch() { stop(); }
  void add(Watched& watched);
  /// Returns when it is not looked at any more.
  void remove(Watched& watched);
  /// Whom the thread drives now, if it drives anyone: while it is kept there it moves nobody's messages.
  void drives(Watched* watched) { driven_.store(watched, std::memory_order_relaxed); }  // a hint: remove() has a lock
  /// Has a library kept the thread for longer than somebody could wait?
  bool is_stuck() const { return stuck_.load(std::memory_order_relaxed); }  // orders nothing
  void stop();

 private:
  struct Observation {
    Watched* watched = nullptr;
    std::uint64_t visits = 0;
    double waited_s = 0;  // in that visit, as far as ticks have counted
    bool told = false;
  };
  void run();
  void look(double since_s);
  double tick_s() const;

  std::mutex mutex_;  // guards what follows, but for the atomics
  std::condition_variable changed_;
  std::vector<Observation> seen_;
  bool asleep_ = false, stop_ = false;
  std::thread thread_;
  std::atomic<Watched*> driven_ = nullptr;
  std::atomic<bool> stuck_ = false;
};

}  // namespace lanecast
