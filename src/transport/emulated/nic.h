// SPDX-License-Identifier: Apache-2.0
// One emulated NIC: a thread that works on the queue pairs of its rank's ports, at the network's rate and latency.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/emulated/queue_pair.h"

namespace lanecast::emulated {

class Nic {
 public:
  Nic(const Fabric& fabric, std::uint32_t index);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  /// A rank's port. Its number, by which the others name it.
  std::uint64_t attach(const PortAddress& port, int ranks);
  /// From now on its works are done. rank: its own.
  void meet(std::uint64_t number, int rank, const std::vector<PortAddress>& all);
  void open(std::uint64_t number, std::uint32_t key);
  void detach(std::uint64_t number);

 private:
  struct Peer {
    PortMemory memory;
    std::uint32_t nic = 0;
  };
  struct Port {
    std::uint64_t number = 0;
    PortMemory memory;
    std::vector<Peer> peers;
    std::vector<QueuePair> flows;
  };
  void work();
  /// What can be done now. When there is more to do, as far as is known; 0: now.
  std::uint64_t step();
  /// Until when none can begin.
  std::uint64_t begin_segments();
  void fail(Port& port, const std::string& why);
  Port& at(std::uint64_t number);

  const Fabric& fabric_;
  std::uint32_t index_;
  std::mutex mutex_;  // of all below
  std::unique_ptr<Engine> engine_;
  Clock clock_;
  std::list<Port> ports_;
  std::uint64_t next_ = 1;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace lanecast::emulated
