// SPDX-License-Identifier: Apache-2.0
// Messages between ranks that are threads of one process.
#pragma once

#include <memory>

#include "transport/loopback/channel.h"
#include "transport/loopback/world.h"
#include "transport/transport.h"

namespace lanecast {

class LoopbackTransport : public Transport {
 public:
  /// `rank` is a rank of the communicator that owns `channel`; it may be one of fewer ranks than the world has.
  LoopbackTransport(const std::shared_ptr<LoopbackWorld>& world, int rank, std::uint64_t channel = 0);
  ~LoopbackTransport() override;

  std::string_view name() const override { return "loopback"; }
  bool reaches(int peer) const override { return peer >= 0 && peer < channel_->size() && peer != rank_; }
  bool scatters() const override { return true; }
  bool consumes() const override { return true; }
  bool compares_stamps() const override { return true; }
  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  void abort(const Failure& cause) override;
  Loss lost(int peer) override;
  bool tells_at_once() const override { return true; }
  std::optional<int> given_up() override;
  void publish(const CallNote& note) override { mine().calls.put(note); }
  std::optional<CallNote> published(int peer, std::uint64_t sequence) override {
    return (*channel_)[peer].calls.find(sequence);
  }

  void publish_wait(std::span<const int> peers, bool /*may_be_asked*/) override { mine().waits.put(peers); }
  std::optional<Waiting> waiting(int peer, double /*silent_s*/) override { return (*channel_)[peer].waits.get(); }
  void want(int peer, const Want& want) override { mine().wants[peer].put(want); }
  std::optional<Want> wanted(int peer) override { return (*channel_)[peer].wants[rank_].get(); }

 private:
  LoopbackMailbox& mine() { return (*channel_)[rank_]; }
  void copy(const LoopbackMatch& match);
  void leave(LoopbackMailbox::State state, const Failure& cause);

  const std::shared_ptr<LoopbackChannel> channel_;
  const int rank_;
  std::vector<LoopbackMatch> matches_;  // being copied; kept here so that progress() allocates nothing
};

}  // namespace lanecast
