// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/where_messages_lie.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "device/gpu/beside_captures.h"
#include "runtime/request/options.h"
#include "transport/ucx/libraries.h"

namespace lanecast {
namespace {

/// Zeros where this driver hands none out.
gpu::IpcHandle handle_of(const gpu::DeviceMemory& memory) {
  try {
    return memory.ipc_handle();
  } catch (const TransportError&) {
    return {};
  }
}

}  // namespace

bool WhereMessagesLie::any() const {
  return std::ranges::any_of(least_on_device, [](std::size_t least) { return least != kNever; });
}

WhereMessagesLie where_messages_lie(std::string_view wanted, const gpu::Device& device,
                                    const std::shared_ptr<Router>& router, int rank,
                                    const std::vector<std::string>& hosts) {
  WhereMessagesLie where{std::vector<std::size_t>(hosts.size(), WhereMessagesLie::kNever), false, {}, router};
  if (wanted == kStagedMessages) return where;
  const bool by_itself = wanted.empty();
  if (by_itself && !device.sees_remote_writes_in_order()) return where;
  const GpuVendor vendor = device.driver().vendor();
  for (int peer = 0; peer < router->size(); ++peer) {
    if (peer == rank) continue;
    const Transport& transport = router->to(peer);
    const std::optional<bool> takes = transport.takes(vendor);
    if (takes.value_or(!by_itself)) where.least_on_device[peer] = transport.traits().least_on_gpu;
    where.needs_context |= !takes && where.on_device(peer);
    if (by_itself && !takes && hosts[peer] != hosts[rank]) where.why_staged = transport.why_undecided(vendor);
    if (by_itself || where.on_device(peer) || hosts[peer] == hosts[rank]) continue;
    const std::string remedy =
        transport.name() == "ucx" ? ucx::to_take(vendor, transport.traits().moves_by_itself) : std::string();
    throw UsageError("gpu_messages: '" + std::string(kDirectMessages) + "', and messages from rank " +
                     std::to_string(rank) + " to rank " + std::to_string(peer) + " go over " +
                     std::string(transport.name()) + ", which takes no GPU's memory here" +
                     (remedy.empty() ? "" : "; UCX takes " + remedy));
  }
  return where;
}

RegisteredMemory::RegisteredMemory(const WhereMessagesLie& where, const gpu::DeviceMemory& memory)
    : device_(memory.device()), router_(where.router) {
  const std::shared_ptr<Router> router = router_.lock();
  if (!router) throw InternalError("a GPU's memory was made for messages after their transports had gone");
  memory_.vendor = device_->driver().vendor();
  memory_.memory = {reinterpret_cast<std::byte*>(memory.address()), memory.bytes()};
  memory_.handle = handle_of(memory);
  device_->pci_bus_id().copy(memory_.bus_id.data(), memory_.bus_id.size() - 1);
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());  // a library below may ask the driver, in a capture as well
  try {
    for (std::size_t k = 0; k < router->count(); ++k) {
      const auto carries_on_device = [&](int peer) { return where.on_device(peer) && router->number_of(peer) == k; };
      bool carries = false;
      for (int peer = 0; peer < router->size(); ++peer) carries |= carries_on_device(peer);
      if (!carries) continue;
      (*router)[k].register_memory(memory_);
      knowing_.push_back(k);
    }
  } catch (...) {
    forget(*router);
    throw;
  }
}

RegisteredMemory::~RegisteredMemory() {
  if (knowing_.empty()) return;
  const std::shared_ptr<Router> router = router_.lock();
  if (!router) return;  // the transports have forgotten it as they went
  int before = 0;
  // When a process ends, the driver may have gone first.
  if (device_->enter(&before) != gpu::kSuccess) return;
  forget(*router);
  device_->driver().leave(before);
}

void RegisteredMemory::forget(Router& router) {
  for (const std::size_t k : knowing_) router[k].unregister_memory(memory_);
  knowing_.clear();
}

}  // namespace lanecast
