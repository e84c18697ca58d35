// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/gpu_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace lanecast::ucx {
namespace {

/// Has any of UCX's means to move memory taken it? A key for peers begins with a bit for each of them.
bool is_registered(const Worker& worker, MemoryHandle handle) {
  void* key = nullptr;
  std::size_t bytes = 0;
  worker.ucp().check(worker.ucp().ucp_rkey_pack(worker.context(), handle, &key, &bytes), "ucp_rkey_pack");
  std::uint64_t means = 0;
  std::memcpy(&means, key, std::min(bytes, sizeof means));
  worker.ucp().ucp_rkey_buffer_release(key);
  return means != 0;
}

}  // namespace

void GpuMemoryMap::add(const Worker& worker, const GpuSpan& memory, Drivers drivers) {
  Mapped mapped{memory.memory, type_of(memory.vendor)};
  // Else UCX finds out by itself what it can do, and says on stderr where it is asked to map what it can only copy.
  if (drivers == Drivers::apart) map(worker, mapped);
  mapped_.push_back(mapped);
}

void GpuMemoryMap::map(const Worker& worker, Mapped& mapped) {
  const Ucp& ucp = worker.ucp();
  MemoryParams params;
  params.field_mask = MemoryParams::kAddress | MemoryParams::kLength | MemoryParams::kMemoryType;
  params.address = mapped.memory.data;
  params.length = mapped.memory.bytes;
  params.memory_type = mapped.type;
  const auto refuse = [&](const std::string& why) {
    throw TransportError("rank " + std::to_string(worker.rank()) + ": UCX does not take the GPU's memory (" + why +
                         "); gpu_messages='staged', or LANECAST_GPU_MESSAGES, has messages lie in the host's");
  };
  if (const Status status = ucp.ucp_mem_map(worker.context(), &params, &mapped.handle); status < 0)
    refuse(ucp.words(status));
  if (is_registered(worker, mapped.handle)) return;
  ucp.ucp_mem_unmap(worker.context(), mapped.handle);
  refuse("none of its NICs has registered it");
}

void GpuMemoryMap::unmap(const Worker& worker, const Mapped& mapped) {
  if (mapped.handle) worker.ucp().ucp_mem_unmap(worker.context(), mapped.handle);
}

void GpuMemoryMap::remove(const Worker& worker, const GpuSpan& memory) {
  std::erase_if(mapped_, [&](const Mapped& mapped) {
    if (mapped.memory != memory.memory) return false;
    unmap(worker, mapped);
    return true;
  });
}

void GpuMemoryMap::clear(const Worker& worker) {
  for (const Mapped& mapped : mapped_) unmap(worker, mapped);
  mapped_.clear();
}

void GpuMemoryMap::name(std::span<const Span> message, RequestParams& params) const {
  if (mapped_.empty() || message.empty()) return;
  const auto found = std::ranges::find_if(mapped_, [at = message[0].data](const Mapped& mapped) {
    return at >= mapped.memory.data && at < mapped.memory.data + mapped.memory.bytes;
  });
  if (found == mapped_.end()) return;
  params.memory_type = found->type;
  if (!found->handle) return;
  params.field_mask |= RequestParams::kMemoryHandle;
  params.memory_handle = found->handle;
}

}  // namespace lanecast::ucx
