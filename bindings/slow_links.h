// SPDX-License-Identifier: Apache-2.0
// A transport for tests: another one behind links of a known speed, so that how long a plan must take can be computed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "simulated_clock.h"
#include "wrapped_transport.h"

namespace lanecast {

/// One direction of a wire: messages of this rank pass it one after the other.
struct SlowLink {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

/// The clock of all, and by which numbers it knows this rank and its peers.
struct ClockOfRank {
  std::shared_ptr<SimulatedClock> clock;
  int rank;
  std::vector<int> peers;
};

/// A message is handed to the transport behind when it would have left the link to its peer, and not before.
class SlowLinks final : public WrappedTransport {
 public:
  SlowLinks(std::unique_ptr<Transport> inner, const std::vector<SlowLink>& links, std::vector<int> link_of_peer,
            ClockOfRank time)
      : WrappedTransport(std::move(inner)), link_of_peer_(std::move(link_of_peer)), time_(std::move(time)) {
    for (const SlowLink& link : links) wires_.push_back({link, {}, {}});
    time_.clock->joins(time_.rank);
  }
  ~SlowLinks() override {
    drop_messages();
    time_.clock->leaves(time_.rank);
  }
  SlowLinks(const SlowLinks&) = delete;
  SlowLinks& operator=(const SlowLinks&) = delete;

  void post_send(Message& message) override {
    Wire& wire = wires_[link_of_peer_[message.peer]];
    const std::chrono::duration<double> takes(wire.link.alpha_s +
                                              wire.link.beta_s_per_byte * static_cast<double>(message.bytes));
    wire.free = std::max(wire.free, time_.clock->now()) + std::chrono::duration_cast<SimulatedClock::Time>(takes);
    wire.messages.emplace_back(wire.free, &message);
    time_.clock->expect(time_.rank, wire.free);
  }
  void post_recv(Message& message) override {
    inner().post_recv(message);
    stir(message.peer);
  }

  bool progress(std::vector<Message*>& done) override {
    const auto now = time_.clock->now();
    bool works = false;
    for (Wire& wire : wires_)
      while (!wire.messages.empty() && wire.messages.front().first <= now) {
        const auto [leaves, message] = wire.messages.front();
        wire.messages.pop_front();
        inner().post_send(*message);
        stir(message->peer);
        time_.clock->happened(time_.rank, leaves);
        works = true;
      }
    const std::size_t before = done.size();
    const bool moved = inner().progress(done);
    for (std::size_t k = before; k < done.size(); ++k) stir(done[k]->peer);
    if (works || moved)
      time_.clock->works(time_.rank);
    else
      time_.clock->waits(time_.rank);
    return moved;
  }

  void abort(const Failure& cause) override {
    drop_messages();
    inner().abort(cause);
  }

 private:
  using Time = SimulatedClock::Time;
  struct Wire {
    SlowLink link;
    Time free;                                       // when the last message will have left
    std::deque<std::pair<Time, Message*>> messages;  // with the time at which each leaves
  };

  /// This rank and a peer may have something to do.
  void stir(int peer) {
    time_.clock->works(time_.rank);
    time_.clock->works(time_.peers[peer]);
  }

  void drop_messages() {
    for (Wire& wire : wires_) {
      for (const auto& [leaves, message] : wire.messages) time_.clock->happened(time_.rank, leaves);
      wire.messages.clear();
    }
  }

  std::vector<int> link_of_peer_;
  ClockOfRank time_;
  std::vector<Wire> wires_;
};

}  // namespace lanecast
