// SPDX-License-Identifier: Apache-2.0
// Tensors for a group's calls, in memory that its peers map: what FSDP2 asks for by
// set_allocate_memory_from_process_group_for_comm().
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gil.h>

#include <utility>

#include "backend.h"

namespace lanecast_torch {

bool Backend::supportsTensorAlloc(c10::DeviceIndex /*device*/) {
  const lanecast::WithoutGil unlocked;
  return engine_->has_peer_memory();
}

at::Tensor Backend::allocateTensor(long elements, at::TensorOptions options) {
  const lanecast::WithoutGil unlocked;
  const c10::Device device = options.device();
  if (!device.is_cuda()) return at::empty({elements}, options);
  const c10::DeviceIndex current = c10::impl::VirtualGuardImpl(device.type()).getDevice().index();
  const bool here = !device.has_index() || device.index() == current;
  // Others are as good to every call, but for its speed.
  if (elements == 0 || !here || !engine_->has_peer_memory()) return at::empty({elements}, options);
  const std::lock_guard lock(pool_mutex_);
  if (!take_from_pool_) take_from_pool_ = helpers_.make_pool();
  const auto type = c10::typeMetaToScalarType(options.dtype());
  return take_from_pool_(elements * static_cast<std::int64_t>(c10::elementSize(type)), current).view(type);
}

void Backend::check_mappable(const std::vector<const void*>& segments) {
  for (const void* segment : segments)
    TORCH_CHECK_VALUE(Pool::instance().find(segment),
                      "lanecast: this pool has memory that other processes cannot map: ",
                      "make it by lanecast.torch.mem_pool(), or as torch.cuda.MemPool(backend.mem_allocator)");
}

void Backend::let_peers_map(const std::vector<const void*>& segments) {
  const lanecast::WithoutGil unlocked;
  check_mappable(segments);
  for (const void* segment : segments) engine_->let_peers_map(segment);
}

void Backend::drop_pool() {
  const std::lock_guard lock(pool_mutex_);
  take_from_pool_ = nullptr;  // torch keeps what tensors still lie in
}

}  // namespace lanecast_torch
