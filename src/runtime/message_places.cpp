// SPDX-License-Identifier: Apache-2.0
#include "runtime/message_places.h"

#include "base/error.h"
#include "transport/ucx/libraries.h"

namespace lanecast {
namespace {

constexpr std::string_view kStaged = "staged", kDirect = "direct";

/// Of fewer, a library's stream may share one with a stream of ours that waits for what the library is to copy. With
/// the usual 8 a job with 40 more streams ran, with the 2 of a process under MPS it did not end.
constexpr int kLeastQueues = 8;

}  // namespace

void check_places(std::string_view wanted) {
  if (!wanted.empty() && wanted != kStaged && wanted != kDirect)
    throw UsageError("gpu_messages: '" + std::string(wanted) + "' is neither staged nor direct");
}

std::vector<bool> messages_on_device(std::string_view wanted, const gpu::Device& device, Router& router, int rank,
                                     const std::vector<std::string>& hosts) {
  std::vector<bool> on_device(hosts.size(), false);
  if (wanted == kStaged) return on_device;
  const bool by_itself = wanted.empty();
  const bool is_safe = device.hardware_queues() >= kLeastQueues && device.sees_remote_writes_in_order();
  if (by_itself && !is_safe) return on_device;
  const GpuMemory memory = device.driver().vendor() == gpu::Vendor::amd ? GpuMemory::rocm : GpuMemory::cuda;
  for (int peer = 0; peer < router.size(); ++peer) {
    if (peer == rank) continue;
    const Transport& transport = router.to(peer);
    const std::optional<bool> takes = transport.takes(memory);
    on_device[peer] = takes.value_or(!by_itself);
    if (by_itself || on_device[peer] || hosts[peer] == hosts[rank]) continue;
    const std::string remedy =
        transport.name() == "ucx" ? ucx::to_take(memory, transport.moves_by_itself()) : std::string();
    throw UsageError("gpu_messages: '" + std::string(kDirect) + "', and messages from rank " + std::to_string(rank) +
                     " to rank " + std::to_string(peer) + " go over " + std::string(transport.name()) +
                     ", which takes no GPU's memory here" + (remedy.empty() ? "" : "; UCX takes " + remedy));
  }
  return on_device;
}

}  // namespace lanecast
