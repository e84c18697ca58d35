// SPDX-License-Identifier: Apache-2.0
// A transport for tests that does what another one does, but for what it overrides.
#pragma once

#include <memory>
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
  Traits traits() const override { return inner_->traits(); }

  void post_send(Message& message) override { inner_->post_send(message); }
  void post_recv(Message& message) override { inner_->post_recv(message); }
  bool progress(std::vector<Message*>& done) override { return inner_->progress(done); }
  bool arrived(int peer, std::uint64_t tag) override { return inner_->arrived(peer, tag); }

  void abort(const Failure& cause) override { inner_->abort(cause); }
  Witness& witness() override { return inner_->witness(); }

 protected:
  Transport& inner() { return *inner_; }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace lanecast
