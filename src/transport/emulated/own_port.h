// SPDX-License-Identifier: Apache-2.0
// A rank's port: its queue pairs with all peers, attached to a NIC of its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "base/process.h"
#include "transport/emulated/control.h"
#include "transport/emulated/fabric.h"

namespace lanecast::emulated {

class OwnPort {
 public:
  /// Collective. host: of this rank, as its NIC process is called. Throws on all ranks where it does on one.
  OwnPort(const Bootstrap& bootstrap, const std::string& folder, const std::string& host);
  ~OwnPort();
  OwnPort(const OwnPort&) = delete;
  OwnPort& operator=(const OwnPort&) = delete;

  int rank() const { return rank_; }
  /// Its NIC, of the network.
  std::uint32_t nic() const { return nic_; }
  int size() const { return static_cast<int>(peers_.size()); }
  Ring<NicWork> works(int peer, Queue queue) const { return memory_.works(peer, queue); }
  Ring<Arrival> arrivals(int peer, Queue queue) const { return memory_.arrivals(peer, queue); }
  /// After works were pushed.
  void ring() const { emulated::ring(fabric_.nic(nic_)); }

  /// Of which GPUs messages may lie in memory; none where the NIC process reaches no GPU.
  std::optional<GpuVendor> gpus() const { return gpus_; }
  /// Has the NIC open this memory, so that works can name it. Throws where it cannot.
  void enroll(const GpuSpan& memory);
  /// Returns when no NIC has it open any more, or has had a second to let go of it. No copy begins any more.
  void withdraw(const std::byte* begin);
  void withdraw_all();
  /// Where this lies in what was enrolled.
  std::optional<RegisteredPlace> find(const std::byte* data) const;

  /// What keeps messages with the peer from moving: a NIC or a process that has ended, or what the NIC has met. Looks
  /// into /proc, so not in every round. Empty: nothing.
  std::string trouble(int peer) const;

 private:
  struct Peer {
    Process process, nic;
    std::uint32_t nic_index = 0;
  };
  struct Enrolled {
    std::size_t bytes = 0;
    std::uint32_t key = 0;
  };
  Reply ask(const NicRequest& request, std::span<const PortAddress> ports = {}) const;
  void forbid(std::uint32_t key);
  template <class LetGo>
  void await_let_go(const LetGo& let_go);

  int rank_;
  Fabric fabric_;
  std::string host_;
  FileDescriptor file_;  // of the memory: NICs open it by its number
  PortMemory memory_;
  FileDescriptor socket_;
  std::uint32_t nic_ = 0;
  Process nic_process_;
  std::optional<GpuVendor> gpus_;
  std::vector<Peer> peers_;
  std::map<const std::byte*, Enrolled> enrolled_;  // by where it begins
  bool nics_let_go_ = true;                        // within the time they have
};

}  // namespace lanecast::emulated
