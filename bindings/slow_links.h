// SPDX-License-Identifier: Apache-2.0
// A transport for tests: another one behind links of a known speed, so that how long a plan must take can be computed.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "wrapped_transport.h"

namespace lanecast {

/// One direction of a wire: messages of this rank pass it one after the other.
struct SlowLink {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

/// A message is handed to the transport behind when it would have left the link to its peer, and not before.
class SlowLinks final : public WrappedTransport {
 public:
  SlowLinks(std::unique_ptr<Transport> inner, const std::vector<SlowLink>& links, std::vector<int> link_of_peer)
      : WrappedTransport(std::move(inner)), link_of_peer_(std::move(link_of_peer)) {
    for (const SlowLink& link : links) wires_.push_back({link, {}, {}});
  }

  void post_send(Message& message) override {
    Wire& wire = wires_[link_of_peer_[message.peer]];
    const std::chrono::duration<double> takes(wire.link.alpha_s +
                                              wire.link.beta_s_per_byte * static_cast<double>(message.bytes));
    wire.free = std::max(wire.free, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
    wire.messages.emplace_back(wire.free, &message);
  }

  bool progress(std::vector<Message*>& done) override {
    const auto now = Clock::now();
    for (Wire& wire : wires_)
      while (!wire.messages.empty() && wire.messages.front().first <= now) {
        inner().post_send(*wire.messages.front().second);
        wire.messages.pop_front();
      }
    return inner().progress(done);
  }

  void abort(const Failure& cause) override {
    for (Wire& wire : wires_) wire.messages.clear();
    inner().abort(cause);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Wire {
    SlowLink link;
    Clock::time_point free;                                       // when the last message will have left
    std::deque<std::pair<Clock::time_point, Message*>> messages;  // with the time at which each leaves
  };

  std::vector<int> link_of_peer_;
  std::vector<Wire> wires_;
};

}  // namespace lanecast
