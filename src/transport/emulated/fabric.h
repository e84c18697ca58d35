// SPDX-License-Identifier: Apache-2.0
// An emulated network: what all of its NICs share, in a file of its folder, which NIC processes and ranks map.
//
// A NIC's time is a clock that its bytes push forward, one for each direction: bytes that go from a to b take both for
// bytes / rate, and may be read `latency` later. The clocks are virtual: a NIC process that gets no core for a while
// catches up, so a rate holds over any stretch of time that has data throughout.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/shared_pages.h"

namespace lanecast::emulated {

/// Nanoseconds of the clock that all processes of a machine share.
inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

struct alignas(128) NicState {
  std::atomic<std::uint64_t> receives_until_ns;  // any NIC that sends here pushes it forward
  alignas(128) std::atomic<std::uint64_t> sent_bytes;
  std::atomic<std::uint64_t> received_bytes;
  std::atomic<std::uint64_t> messages;            // sent
  alignas(128) std::atomic<std::uint32_t> rings;  // how often its ranks have rung; a futex
  std::atomic<std::uint32_t> sleeps;              // its thread waits for that
};

inline constexpr std::uint32_t kMostHosts = 64, kMostNics = 16;  // of a host

struct FabricState {
  static constexpr std::uint64_t kMagic = 0x3143494e4e414c;  // "LANNIC1"
  std::uint64_t magic;
  std::uint32_t hosts, nics;  // of each host
  double bytes_per_s;         // of each NIC in each direction
  std::uint64_t latency_ns;
  NicState nic[kMostHosts * kMostNics];  // host after host
};

/// What a network is made of.
struct FabricShape {
  int hosts = 2, nics = 1;
  double bytes_per_s = 0, latency_s = 0;
};

class Fabric {
 public:
  /// Writes the file of a new network into the folder. Throws UsageError for a shape that makes no sense.
  static void create(const std::string& folder, const FabricShape& shape);
  /// Throws UsageError where the folder has none.
  explicit Fabric(const std::string& folder);

  FabricState& state() const { return *reinterpret_cast<FabricState*>(memory_.data()); }
  NicState& nic(std::uint32_t index) const { return state().nic[index]; }
  /// "NIC 1 of host 0"
  std::string name_of(std::uint32_t index) const;

 private:
  Mapping memory_;
};

/// Wakes the NIC's thread if it sleeps.
void ring(NicState& nic);
/// Sleeps until somebody rings who had not when `rings` was read, or so long.
void sleep(NicState& nic, std::uint32_t rings, std::chrono::nanoseconds most);

}  // namespace lanecast::emulated
