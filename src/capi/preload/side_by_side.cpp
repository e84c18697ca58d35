// SPDX-License-Identifier: Apache-2.0
#include "capi/preload/side_by_side.h"

#include "device/gpu/beside_captures.h"
#include "device/gpu/device.h"

namespace lanecast::preload {

gpu::Stream SideStream::fork(int ordinal, gpu::Stream stream) {
  const std::lock_guard lock(mutex_);
  if (!order_) {
    const std::shared_ptr<gpu::Device> device = gpu::Device::open(ordinal);
    const gpu::BesideCaptures beside_captures(device->driver());
    order_ = std::make_unique<OrderOfCalls>(device);
  }
  order_->order(stream, order_->own());
  return order_->own();
}

void SideStream::join(gpu::Stream stream) {
  const std::lock_guard lock(mutex_);
  order_->order(order_->own(), stream);
}

}  // namespace lanecast::preload
