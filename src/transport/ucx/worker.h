// SPDX-License-Identifier: Apache-2.0
// A rank's end of UCX: a worker, and an endpoint to each peer that it has to do with.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/running_time.h"
#include "transport/ucx/farewells.h"
#include "transport/ucx/settings.h"

namespace lanecast::ucx {

/// What has not ended so long after disconnect() will not: closing ends a message within 0.1 ms, but for the receive of
/// one that has begun to arrive in pieces. UCX keeps that until the last piece, and a sender that is stopped, killed or
/// has given up sends no more.
inline constexpr auto kAfterClosing = std::chrono::milliseconds(100);

struct WorkerOptions {
  std::string device;   // the NIC to use; empty: as UCX chooses, or has been told by its own variables
  bool sleeps = false;  // may its thread wait for messages without looking for them?
  Drivers drivers = Drivers::apart;
};

class Worker {
 public:
  /// Collective. Throws on all ranks where UCX cannot be had on one.
  explicit Worker(const Bootstrap& bootstrap, const WorkerOptions& options = {});
  ~Worker() { close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const Ucp& ucp() const { return *ucp_; }
  WorkerHandle handle() const { return worker_; }
  Context context() const { return context_; }
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

  /// Of types by ContextAttributes: may messages lie in it?
  bool takes(int memory_type) const;

  /// Made at the first use; null when the connection has failed. Only who has one hears of the peer's end.
  Endpoint to(int peer);
  /// The same, to send something: that peer hears when this rank leaves.
  Endpoint to_send_to(int peer) {
    farewells_->owe(peer);
    return to(peer);
  }
  bool is_connected(int peer) const { return peers_.at(peer).endpoint && peers_.at(peer).status == 0; }
  /// Brings connections about before there is anything to send, for as long as `most`.
  void connect(std::span<const int> peers, std::chrono::milliseconds most);
  /// Why the connection has failed, in UCX's words; empty while it has not.
  std::string failure(int peer) const;

  /// Of one that sleeps: readable when there is something to progress, once may_sleep() has said so.
  int event_fd() const { return event_fd_; }
  bool may_sleep() const { return ucp_->ucp_worker_arm(worker_) == 0; }

  /// True when anything moved.
  bool progress() {
    farewells_->answer();
    return ucp_->ucp_worker_progress(worker_) != 0;
  }
  /// Drives UCX until done() or for as long as `most`.
  template <class Done>
  bool progress_until(const Done& done, std::chrono::milliseconds most);
  /// Takes leave of the peers, so that what was sent last arrives. Before close(), where nothing went wrong.
  void leave() { farewells_->say(); }
  /// Has the peer taken leave?
  bool has_left(int peer) const { return farewells_->has_left(peer); }
  /// Ends all connections now; what is under way ends with an error.
  void disconnect();
  /// Lets what was sent arrive, if the peers take it within a moment, and ends. Until it returns UCX may call whatever
  /// callback it was given: to be called before anything goes that those use.
  void close();

 private:
  struct Peer {
    std::string address;
    Endpoint endpoint = nullptr;
    Status status = 0;
  };

  Worker(int rank, int size, std::string device);
  void open(std::string& address, const WorkerOptions& options);
  void open_ucx(std::string& address, const WorkerOptions& options);
  void close_endpoints(const RequestParams& how);
  void close(Peer& peer, const RequestParams& how, std::vector<Request>& closing);
  /// Drives UCX until all have ended or for as long as `most`; those that have not.
  std::vector<Request> await(std::vector<Request> requests, std::chrono::milliseconds most);
  /// Waits as long as a close may take, then gives late requests back to UCX: ucp_worker_destroy asserts that.
  void await_closed(std::vector<Request> closing);

  const Ucp* ucp_ = nullptr;
  std::string device_;
  int rank_;
  Context context_ = nullptr;
  WorkerHandle worker_ = nullptr;
  int event_fd_ = -1;  // UCX's
  std::vector<Peer> peers_;
  std::unique_ptr<Farewells> farewells_;
};

template <class Done>
bool Worker::progress_until(const Done& done, std::chrono::milliseconds most) {
  Countdown left(most);
  while (!done()) {
    if (!progress() && left.over()) return false;
  }
  return true;
}

}  // namespace lanecast::ucx
