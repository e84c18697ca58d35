// SPDX-License-Identifier: Apache-2.0
// A transport for tests: another one behind links of a known speed, so that how long a plan must take can be computed.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace lanecast {

/// One direction of a wire: messages of this rank pass it one after the other.
struct SlowLink {
  double alpha_s = 0;
  double beta_s_per_byte = 0;
};

/// A message is handed to the transport behind when it would have left the link to its peer, and not before.
class SlowLinks final : public Transport {
 public:
  SlowLinks(std::unique_ptr<Transport> inner, const std::vector<SlowLink>& links, std::vector<int> link_of_peer)
      : inner_(std::move(inner)), link_of_peer_(std::move(link_of_peer)) {
    for (const SlowLink& link : links) wires_.push_back({link, {}, {}});
  }

  std::string_view name() const override { return inner_->name(); }
  bool reaches(int peer) const override { return inner_->reaches(peer); }
  std::uint64_t max_tag() const override { return inner_->max_tag(); }
  bool scatters() const override { return inner_->scatters(); }
  bool consumes() const override { return inner_->consumes(); }

  void post_send(Message& message) override {
    Wire& wire = wires_[link_of_peer_[message.peer]];
    const std::chrono::duration<double> takes(wire.link.alpha_s +
                                              wire.link.beta_s_per_byte * static_cast<double>(message.bytes));
    wire.free = std::max(wire.free, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
    wire.messages.emplace_back(wire.free, &message);
  }
  void post_recv(Message& message) override { inner_->post_recv(message); }

  bool progress(std::vector<Message*>& done) override {
    const auto now = Clock::now();
    for (Wire& wire : wires_)
      while (!wire.messages.empty() && wire.messages.front().first <= now) {
        inner_->post_send(*wire.messages.front().second);
        wire.messages.pop_front();
      }
    return inner_->progress(done);
  }

  bool arrived(int peer, std::uint64_t tag) override { return inner_->arrived(peer, tag); }

  void abort(const Failure& cause) override {
    for (Wire& wire : wires_) wire.messages.clear();
    inner_->abort(cause);
  }
  bool tell() override { return inner_->tell(); }
  bool tells_at_once() const override { return inner_->tells_at_once(); }
  Loss lost(int peer) override { return inner_->lost(peer); }
  void carries(std::span<const int> peers) override { inner_->carries(peers); }
  std::optional<int> given_up() override { return inner_->given_up(); }
  bool compares_stamps() const override { return inner_->compares_stamps(); }
  void publish_wait(std::span<const int> peers, bool may_be_asked) override {
    inner_->publish_wait(peers, may_be_asked);
  }
  std::optional<Waiting> waiting(int peer, double silent_s) override { return inner_->waiting(peer, silent_s); }
  void want(int peer, const Want& want) override { inner_->want(peer, want); }
  std::optional<Want> wanted(int peer) override { return inner_->wanted(peer); }
  void publish(const CallNote& note) override { inner_->publish(note); }
  std::optional<CallNote> published(int peer, std::uint64_t sequence) override {
    return inner_->published(peer, sequence);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Wire {
    SlowLink link;
    Clock::time_point free;                                       // when the last message will have left
    std::deque<std::pair<Clock::time_point, Message*>> messages;  // with the time at which each leaves
  };

  std::unique_ptr<Transport> inner_;
  std::vector<int> link_of_peer_;
  std::vector<Wire> wires_;
};

}  // namespace lanecast
