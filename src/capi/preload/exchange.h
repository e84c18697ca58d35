// SPDX-License-Identifier: Apache-2.0
// What ranks tell each other by a new communicator of NCCL's: so no port, no MPI and no launcher is needed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capi/preload/real_nccl.h"
#include "device/gpu/memory.h"
#include "device/gpu/stream.h"

namespace lanecast::preload {

class NcclExchange {
 public:
  /// On the GPU of the communicator.
  NcclExchange(const RealNccl& nccl, NcclComm comm);

  int rank() const { return rank_; }
  int size() const { return size_; }
  int ordinal() const { return device_->ordinal(); }

  /// Collective. Blocks; throws TransportError. `out` gets size() times the bytes.
  void all_gather(const void* in, void* out, std::size_t bytes);

  /// Its steps, for several communicators at once: gather() may stand in a group of NCCL's. At most kPiece bytes.
  /// stride: from one rank's to the next one's in `out`.
  static constexpr std::size_t kPiece = 1 << 14;
  void show(const void* in, std::size_t bytes);
  void gather(std::size_t bytes);
  void collect(std::byte* out, std::size_t bytes, std::size_t stride);

 private:
  void wait();
  void require(int result, const char* call) const;

  const RealNccl& nccl_;
  NcclComm comm_;
  int rank_ = 0, size_ = 0;
  std::shared_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::DeviceMemory> memory_;
  std::unique_ptr<gpu::PinnedMemory> host_;
  std::unique_ptr<gpu::OwnedStream> stream_;
  std::unique_ptr<gpu::OwnedEvent> event_;
};

/// Steps that all ranks take or none: whoever gives up takes part in one more exchange, which tells the others, so that
/// nobody waits for a rank that has left.
class Session {
 public:
  explicit Session(NcclExchange& exchange) : exchange_(exchange) {}

  /// False where a rank has given up; no step follows.
  bool step(const void* in, void* out, std::size_t bytes);
  /// Collective: did all get here? `failure`: why this rank did not; empty: it did. Else becomes the first rank's
  /// reason.
  bool all_are_well(std::string& failure);

 private:
  enum class State : unsigned { going, done, gave_up };
  bool all_say(State state, std::size_t bytes);

  NcclExchange& exchange_;
  bool over_ = false;  // somebody gave up, and all have heard it
};

}  // namespace lanecast::preload
