// SPDX-License-Identifier: Apache-2.0
// Streams and events of a driver without a GPU: each stream is a thread that does one thing after the other.
#pragma once

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace gpu_host {

struct Graph;

class Queue {
 public:
  Graph* captured_by = nullptr;  // what is enqueued goes there instead; of a thread's own calls

  Queue() : thread_([this] { work(); }) {}
  ~Queue() {
    push({});  // the end, behind all else
    thread_.join();
  }

  /// Waits for room, as a driver's queues of about a thousand places have it; GPU_HOST_ROOM: places.
  void push(std::function<void()> task) { push(std::move(task), /*at_once=*/false); }
  /// at_once: waits for no room.
  void push(std::function<void()> task, bool at_once) {
    static const char* const room = std::getenv("GPU_HOST_ROOM");
    std::unique_lock lock(mutex_);
    if (room != nullptr && !at_once) changed_.wait(lock, [this] { return tasks_.size() < std::stoul(room); });
    tasks_.push_back(std::move(task));
    changed_.notify_all();
  }

  bool idle() {
    const std::lock_guard lock(mutex_);
    return tasks_.empty();
  }

  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty(); });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !tasks_.empty(); });
      const auto task = tasks_.front();  // counts as under way until it is done
      if (!task) return;
      lock.unlock();
      task();
      lock.lock();
      tasks_.pop_front();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

/// What the thread of a stream has done so far, as a test has set it: no machine is so busy that it counts.
inline thread_local double clock_us = 0;

/// Each record of it is reached by itself: it may be recorded again, on another stream, before the streams that wait
/// for the record before have come to it.
class Mark {
 public:
  Graph* captured_by = nullptr;  // it was recorded on a stream that a graph captures

  long record() {
    const std::lock_guard lock(mutex_);
    ahead_.insert(++latest_);
    return latest_;
  }
  void reach(long record) {
    const std::lock_guard lock(mutex_);
    ahead_.erase(record);
    if (record == latest_) at_us_ = clock_us;
    changed_.notify_all();
  }
  double at_us() {
    const std::lock_guard lock(mutex_);
    return at_us_;
  }
  long latest() {
    const std::lock_guard lock(mutex_);
    return latest_;
  }
  bool reached(long record) {
    const std::lock_guard lock(mutex_);
    return !ahead_.contains(record);
  }
  void wait(long record) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ahead_.contains(record); });
  }

 private:
  std::mutex mutex_;
  double at_us_ = 0;
  std::condition_variable changed_;
  long latest_ = 0;
  std::set<long> ahead_;  // records that no stream has come to yet
};

}  // namespace gpu_host
