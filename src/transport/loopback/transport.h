// SPDX-License-Identifier: Apache-2.0
// Messages between ranks that are threads of one process.
#pragma once

#include <memory>

#include "transport/loopback/channel.h"
#include "transport/loopback/witness.h"
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
  Traits traits() const override { return {.scatters = true, .consumes = true, .compares_stamps = true}; }
  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  void abort(const Failure& cause) override;
  Witness& witness() override { return witness_; }

 private:
  LoopbackMailbox& mine() { return (*channel_)[rank_]; }
  void copy(const LoopbackMatch& match);
  void leave(LoopbackMailbox::State state, const Failure& cause);

  const std::shared_ptr<LoopbackChannel> channel_;
  const int rank_;
  MailboxWitness witness_;
  std::vector<LoopbackMatch> matches_;  // being copied; kept here so that progress() allocates nothing
};

}  // namespace lanecast
