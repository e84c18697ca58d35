// SPDX-License-Identifier: Apache-2.0
// What kernels that wait and their host tell each other: how long to wait, and of waits that end badly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "device/gpu/kernels/arguments.h"
#include "device/gpu/memory.h"
#include "peers/host_clock.h"

namespace lanecast::peers {

/// What a kernel has found while it waited.
struct PeerFault {
  gpu::Fault what{};
  int peer = -1;  // as the kernel counts its peers
  std::uint16_t signature = 0, found = 0;
  gpu::WaitKind place{};
  std::size_t bytes = 0, found_bytes = 0;  // of a message: here, and at the peer
  std::uint32_t step = 0, chunk = 0;       // of a program's plan, and of the lane
};

class Faults {
 public:
  explicit Faults(const std::shared_ptr<gpu::Device>& device);

  gpu::Address device() const { return memory_.device(); }
  /// Of the waits of the kernels that are enqueued from now on; so many times as long where a host looks at the peers
  /// meanwhile, and is to give up first.
  void set_timeout(double timeout_s, double watched = 1);
  gpu::u64 timeout_ns() const { return timeout_ns_; }
  /// Of kernels whose waits no host looks after.
  gpu::u64 unwatched_timeout_ns() const { return unwatched_timeout_ns_; }
  std::optional<PeerFault> met() const;
  /// Kernels stop waiting: what they wait for will not come.
  void poison();
  /// After poison(): a word that is not 0.
  gpu::Address poisoned() const { return device() + offsetof(gpu::FaultRecord, poison); }
  /// Nothing waits any more, whatever is launched.
  void end_deadlines() { clock_.reset(); }

 private:
  gpu::PinnedMemory memory_;
  std::unique_ptr<HostClock> clock_;  // behind the memory, into which it writes
  gpu::u64 timeout_ns_ = 0, unwatched_timeout_ns_ = 0;
};

}  // namespace lanecast::peers
