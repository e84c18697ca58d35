// SPDX-License-Identifier: Apache-2.0
// Where the messages of a call on GPUs lie while they are moved: in pinned memory of the host, or, the long ones, on
// the GPU itself where the transport takes that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu/memory.h"
#include "runtime/wires/router.h"

namespace lanecast {

struct WhereMessagesLie {
  static constexpr std::size_t kNever = SIZE_MAX;
  std::vector<std::size_t> least_on_device;  // by peer: bytes of a message with it that lies on the GPU
  bool needs_context = false;                // a library below asks the thread that calls it for the GPU
  std::string why_staged;                    // where a user may wonder; else empty
  std::weak_ptr<Router> router;              // which may go before the memory

  bool on_device(int peer) const { return least_on_device[static_cast<std::size_t>(peer)] != kNever; }
  bool any() const;
};

/// hosts: of each rank. Throws UsageError where messages are wanted on the GPU and no transport to another host could
/// take them.
WhereMessagesLie where_messages_lie(std::string_view wanted, const gpu::Device& device,
                                    const std::shared_ptr<Router>& router, int rank,
                                    const std::vector<std::string>& hosts);

/// Memory on a GPU in which messages will lie: the transports that carry them know of it while this lives.
class RegisteredMemory {
 public:
  /// Throws TransportError where one does not take it.
  RegisteredMemory(const WhereMessagesLie& where, const gpu::DeviceMemory& memory);
  ~RegisteredMemory();
  RegisteredMemory(RegisteredMemory&&) noexcept = default;
  RegisteredMemory& operator=(RegisteredMemory&&) = delete;

 private:
  void forget(Router& router);

  std::shared_ptr<gpu::Device> device_;
  GpuSpan memory_;
  std::weak_ptr<Router> router_;
  std::vector<std::size_t> knowing_;  // transports of the router
};

}  // namespace lanecast
