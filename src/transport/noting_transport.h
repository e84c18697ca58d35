// SPDX-License-Identifier: Apache-2.0
// A transport whose ranks know of each other by notes alone: no memory shows one what another does.
#pragma once

#include "transport/notes.h"
#include "transport/transport.h"

namespace lanecast {

class NotingTransport : public Transport {
 public:
  void publish(const CallNote& note) final { notes().publish(note); }
  std::optional<CallNote> published(int peer, std::uint64_t sequence) final {
    return notes().published(peer, sequence);
  }
  void publish_wait(std::span<const int> peers, bool may_be_asked) final { notes().publish_wait(peers, may_be_asked); }
  std::optional<Waiting> waiting(int peer, double silent_s) final { return notes().waiting(peer, silent_s); }
  void carries(std::span<const int> peers) override { notes().carries(peers); }
  std::optional<int> given_up() final { return notes().given_up(); }
  bool tell() override { return notes().telling(); }
  void want(int peer, const Want& want) final { notes().want(peer, want); }
  std::optional<Want> wanted(int peer) final { return notes().wanted(peer); }

 private:
  virtual Notes& notes() = 0;
};

}  // namespace lanecast
