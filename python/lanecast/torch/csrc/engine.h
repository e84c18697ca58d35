// SPDX-License-Identifier: Apache-2.0
// The core's communicator of a group, which takes one thread at a time, made safe for the threads of a program.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <gil.h>
#include <lanecast/lanecast.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host_work.h"
#include "options.h"
#include "pool.h"
#include "store_bootstrap.h"

namespace lanecast_torch {

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  /// Collective. Raises ValueError, or DistBackendError (rank, who has not come).
  Engine(StoreBootstrap bootstrap, int rank, int size, const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The ranks of one color become a communicator; null for a negative color. Collective.
  std::unique_ptr<Engine> split(int color, int key);

  // Each makes a call in the caller's thread and blocks until it is done, but no other thread. Throws like check().
  void run(const lanecastCall_t& call, std::chrono::milliseconds timeout);
  void run_barrier(std::chrono::milliseconds timeout);

  // Each starts a call that `work` ends with. `timeout`: without progress; unset: the group's.
  void start(HostWork& work, const lanecastCall_t& call, std::chrono::milliseconds timeout);
  void start_messages(HostWork& work, const std::vector<lanecastMessage_t>& messages);
  void start_barrier(HostWork& work, std::chrono::milliseconds timeout);

  /// Waits until any rank has sent a message with this tag, and starts receiving it: two receives at once never wait
  /// for the same message. Blocks, but no other thread. Throws like check().
  void receive_from_any(HostWork& work, lanecastMessage_t message, std::chrono::milliseconds timeout);

  // On a GPU.

  /// Opens it, without a call. Collective.
  void open(c10::Device device);
  /// Enqueues a call on the memory of the stream's device; returns at once. `timeout`: without progress, once the
  /// stream has come to it; unset: the group's. Throws also what the device has met before.
  void enqueue(const lanecastCall_t& call, const c10::Stream& stream, std::chrono::milliseconds timeout);
  /// Messages of the memory of the stream's device, all at once; else as enqueue().
  void enqueue_messages(const std::vector<lanecastMessage_t>& messages, const c10::Stream& stream);
  /// Is the GPU open, and are all ranks on one host?
  bool has_peer_memory();
  /// Is the GPU open? Then messages need no other ranks than their own two.
  bool has_messages();
  /// Has the peers map what a buffer lies in, if that is of the pool and they have not been told yet.
  void let_peers_map(const void* buffer);
  /// How many calls on memory of the pool have copied nothing.
  std::uint64_t calls_without_copies();
  /// What is enqueued so far on the stream has run when `done` has passed.
  void enqueued(const c10::Stream& stream, std::shared_ptr<const c10::Event> done);
  /// The group's stream for calls beside the caller's.
  c10::Stream own_stream(c10::Device device);
  /// For messages in one direction between this rank and another, which wait for no others.
  c10::Stream message_stream(c10::Device device, bool sends, int peer);
  /// What the device has met so far; null for nothing.
  std::exception_ptr device_error();

  void set_timeout(std::chrono::milliseconds timeout);

  /// A handler has ended the wait for a call that was started here and is not done: close() does not wait for it
  /// either.
  void abandon(lanecastWork_t started);
  /// What keeps a call that was started here and is not done, for people.
  std::string waits_for(lanecastWork_t started);
  /// Waits until nothing is under way.
  void wait_until_idle();
  /// How the communicator has failed, as far as this rank knows.
  lanecastResult_t failure();

  /// Ends what is under way, here and on the peers.
  void abort(const std::string& reason);
  /// Waits up to `grace` for what is under way, ends the rest, and gives the communicator back. Where a handler runs
  /// inside a call of this thread, that cannot end meanwhile: it is ended at once, and its caller gives the
  /// communicator back.
  void close(std::chrono::milliseconds grace);
  /// The same, and signals are heard: what a handler raises leaves the group as it is.
  void close_hearing_signals(std::chrono::milliseconds grace);

 private:
  struct UnderWay {
    std::mutex mutex;
    std::condition_variable changed;
    int calls = 0;
    std::vector<std::thread::id> blocking;                    // whose they are; these need comm_ until they return
    std::set<lanecastWork_t> abandoned;                       // of these
    std::atomic<lanecastResult_t> failure = lanecastSuccess;  // the first

    lanecastResult_t note(lanecastResult_t result);
  };

  Engine(lanecastComm_t comm, std::chrono::milliseconds timeout) : comm_(comm), timeout_(timeout) {}
  template <class Start>
  void start_with(HostWork& work, std::chrono::milliseconds timeout, const Start& start);
  template <class Start>
  void start_locked(HostWork& work, std::chrono::milliseconds timeout, const Start& start);
  template <class Run>
  void run_with(std::chrono::milliseconds timeout, const Run& run);
  bool start_if_arrived(HostWork& work, lanecastMessage_t message);
  /// Of the core's next call, which otherwise would have that of the last one. Unset: the group's.
  void set_core_timeout(std::chrono::milliseconds timeout);
  /// Waits until nothing is under way. `meanwhile` is called now and then; may throw.
  bool idle_by(std::chrono::steady_clock::time_point deadline, const std::function<void()>& meanwhile);
  void close_when_idle(std::chrono::milliseconds grace, const std::function<void()>& meanwhile);
  bool device_idle();
  void let_peers_map_locked(const void* buffer);
  /// mutex_, without Python's lock: who has the one may run a handler, for which it takes the other. Throws where this
  /// is a handler's call, and the one that it interrupts has mutex_.
  class Lock {
   public:
    explicit Lock(Engine& engine);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    const lanecast::WithoutGil unlocked_;
    Engine& engine_;
  };
  /// For a call on comm_. Throws where there is none to use: after close(), and in a forked process.
  class Entry {
   public:
    explicit Entry(Engine& engine);

   private:
    const Lock lock_;
  };
  bool has_lock() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  /// Is this a handler that runs inside a call that needs comm_ until it returns?
  bool is_inside_call();
  void refuse_in_forked() const;
  /// This process was forked from the one that made it: its threads have not come along.
  bool is_inherited() const { return getpid() != process_; }
  /// Throws for the result of a call on comm_ that has returned.
  void check_core(lanecastResult_t result) const;
  /// Of what has gone wrong in comm_, for people.
  std::string last_error() const;

  const pid_t process_ = getpid();
  const std::string whose_ranks_;
  std::timed_mutex mutex_;  // guards what follows
  // Relaxed: a thread finds only its own id, which it has stored itself.
  std::atomic<std::thread::id> owner_{};
  lanecastComm_t comm_ = nullptr;
  std::chrono::milliseconds timeout_;           // of the group
  std::chrono::milliseconds core_timeout_{-1};  // of the core's next call
  std::optional<c10::Stream> own_stream_;
  std::map<std::pair<bool, int>, c10::Stream> message_streams_;             // by direction and peer
  bool has_messages_ = false;                                               // stays true
  bool has_peer_memory_ = false;                                            // stays true
  std::map<std::uint64_t, std::weak_ptr<const Pool::Segment>> registered_;  // by number
  std::map<c10::StreamId, std::shared_ptr<const c10::Event>> last_on_device_;
  const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
};

}  // namespace lanecast_torch
