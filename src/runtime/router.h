// SPDX-License-Identifier: Apache-2.0
// Which transport carries what: messages by peer, group calls by the level at which their members meet.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/writer.h"
#include "transport/transport.h"

namespace lanecast {

class Router {
 public:
  /// by_peer[r]: index of the transport that carries messages to rank r, −1 for this rank itself.
  Router(std::vector<std::unique_ptr<Transport>> transports, std::vector<int> by_peer)
      : transports_(std::move(transports)), by_peer_(std::move(by_peer)) {}

  Transport& to(int peer) { return *transports_[by_peer_[peer]]; }
  std::size_t count() const { return transports_.size(); }
  Transport& operator[](std::size_t k) { return *transports_[k]; }

  /// A transport that runs this collective among these ranks by itself, or null.
  Transport* native(GroupKind kind, DType dtype, ReduceOp op) {
    for (auto& transport : transports_)
      if (transport->runs(kind, dtype, op)) return transport.get();
    return nullptr;
  }

  /// "mpi+shm": what the messages of this rank go over.
  std::string str() const {
    std::string names;
    for (std::size_t k = 0; k < transports_.size(); ++k)
      if (std::find(by_peer_.begin(), by_peer_.end(), static_cast<int>(k)) != by_peer_.end())
        names.append(names.empty() ? "" : "+").append(transports_[k]->name());
    return names.empty() ? "nothing" : names;
  }

  void abort(const Failure& cause) {
    for (auto& transport : transports_) transport->abort(cause);
  }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<int> by_peer_;
};

}  // namespace lanecast
