// SPDX-License-Identifier: Apache-2.0
// A transport for tests that does what another one does, but for what it overrides.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace lanecast {

class WrappedTransport : public Transport {
 public:
  explicit WrappedTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  bool reaches(int peer) const override { return inner_->reaches(peer); }
  std::uint64_t max_tag() const override { return inner_->max_tag(); }
  bool scatters() const override { return inner_->scatters(); }
  bool consumes() const override { return inner_->consumes(); }

  void post_send(Message& message) override { inner_->post_send(message); }
  void post_recv(Message& message) override { inner_->post_recv(message); }
  bool progress(std::vector<Message*>& done) override { return inner_->progress(done); }
  bool arrived(int peer, std::uint64_t tag) override { return inner_->arrived(peer, tag); }

  void abort(const Failure& cause) override { inner_->abort(cause); }
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

 protected:
  Transport& inner() { return *inner_; }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace lanecast
