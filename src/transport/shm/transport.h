// SPDX-License-Identifier: Apache-2.0
// Messages between processes of one host through shared memory.
//
// Each ordered pair of ranks has a lane: a ring of packets to the receiver, and slots for short notes back. Small
// messages leave at once; a large one waits until its receiver has asked for its tag, so whatever the order of the
// calls, no ring is ever blocked by a message that nobody wants yet.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/bootstrap.h"
#include "transport/shm/host.h"
#include "transport/shm/incoming.h"
#include "transport/shm/options.h"
#include "transport/shm/outgoing.h"
#include "transport/transport.h"
#include "transport/witness.h"

namespace lanecast {

class ShmTransport : public Transport {
 public:
  /// `local_ranks`: the ranks of the communicator that live on this host, the caller among them. Collective over the
  /// whole communicator; when it fails on one rank, it throws on all.
  ShmTransport(const Bootstrap& bootstrap, std::span<const int> local_ranks, const ShmOptions& options = {});
  ~ShmTransport() override;
  ShmTransport(const ShmTransport&) = delete;
  ShmTransport& operator=(const ShmTransport&) = delete;

  std::string_view name() const override { return "shm"; }
  bool reaches(int peer) const override;
  Traits traits() const override {
    return {.scatters = true,
            .consumes = true,
            .asks_from = layout_.eager_bytes + 1,
            .asking_bytes = shm::kAskingBytes,
            .sends_once_from = outbox_.has_places() ? layout_.shared_eager_bytes + 1 : SIZE_MAX,
            .read_from = may_read_ ? layout_.readable_eager_bytes + 1 : SIZE_MAX,
            .compares_stamps = true};
  }
  bool may_be_read(int peer, std::size_t bytes, bool sums) const override;
  bool is_read_near(int peer) const override;
  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  /// Looks only at peers with something pending; makes no system call except to read or write a peer's memory.
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  void abort(const Failure& cause) override;
  Witness& witness() override { return witness_; }

 private:
  /// By the boards that the ranks of a host let each other read.
  class BoardWitness final : public Witness {
   public:
    explicit BoardWitness(ShmTransport& owner) : owner_(owner) {}
    /// Reads a file of /proc: microseconds, for every few thousand idle calls of progress().
    Loss lost(int peer) override;
    std::optional<int> given_up() override;
    bool tells_at_once() const override { return true; }
    void publish(const CallNote& note) override;
    std::optional<CallNote> published(int peer, std::uint64_t sequence) override;
    void publish_wait(std::span<const int> peers, bool may_be_asked) override;
    std::optional<Waiting> waiting(int peer, double silent_s) override;
    void want(int peer, const Want& want) override;
    std::optional<Want> wanted(int peer) override;

   private:
    ShmTransport& owner_;
  };
  struct Pair {
    const shm::Neighbour& neighbour;
    shm::Outgoing out;
    shm::Incoming in;
    bool open = false;    // its lanes may be used
    bool active = false;  // listed in active_
  };

  /// Null: not on this host.
  Pair* pair_with(int peer);
  Pair& activate(int peer);
  bool sends() const;
  template <class Part>
  void naming_peer(const Pair& pair, const Part& part);
  void leave(shm::OwnerState state, const Failure& cause);

  const int rank_;
  const shm::ShmLayout layout_;
  const bool may_read_;  // as far as all ranks know alike
  shm::Host host_;
  shm::Outbox outbox_;
  std::optional<shm::Ways> ways_;  // where there are neighbours
  std::deque<Pair> pairs_;         // stays where it is: active_ points into it
  std::vector<int> pair_of_rank_;  // place in pairs_, or -1: not on this host
  std::vector<Pair*> active_;      // pairs with something pending
  std::vector<Message*> done_;     // finished as soon as they were posted
  bool left_ = false;              // aborted or failed: of no further use
  BoardWitness witness_{*this};
};

}  // namespace lanecast
