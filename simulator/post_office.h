// SPDX-License-Identifier: Apache-2.0
// Where posted sends and receives of simulated ranks meet. A message starts when both ends are there.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "network.h"

namespace lanecast::simulator {

class PostOffice {
 public:
  explicit PostOffice(Network& network) : network_(network) {}

  /// at_s: when the rank comes to it, which may lie ahead: until then its device is busy.
  void send(int rank, Message& message, double at_s) {
    post({rank, message.peer, message.tag}, {&message, at_s, true});
  }
  void receive(int rank, Message& message, double at_s) {
    post({message.peer, rank, message.tag}, {&message, at_s, false});
  }

 private:
  struct Address {
    int from, to;
    std::uint64_t tag;
    bool operator==(const Address&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Address& address) const;
  };
  struct Posting {
    Message* message;
    double at_s;
    bool is_send;
  };
  void post(const Address& address, const Posting& posting);

  Network& network_;
  std::unordered_map<Address, Posting, Hash> waiting_;
};

}  // namespace lanecast::simulator
