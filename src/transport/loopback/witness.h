// SPDX-License-Identifier: Apache-2.0
// What ranks that are threads of one process know of each other: each looks into the others' mailboxes.
#pragma once

#include <memory>

#include "transport/loopback/channel.h"
#include "transport/witness.h"

namespace lanecast {

class MailboxWitness final : public Witness {
 public:
  MailboxWitness(std::shared_ptr<LoopbackChannel> channel, int rank) : channel_(std::move(channel)), rank_(rank) {}

  Loss lost(int peer) override;
  std::optional<int> given_up() override;
  bool tells_at_once() const override { return true; }
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

  const std::shared_ptr<LoopbackChannel> channel_;
  const int rank_;
};

}  // namespace lanecast
