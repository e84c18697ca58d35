// SPDX-License-Identifier: Apache-2.0
// A library that moves a GPU's memory may ask the thread that calls it for the GPU.
#pragma once

#include <memory>
#include <optional>

#include "device/gpu/device.h"
#include "runtime/wires/router.h"

namespace lanecast {

/// Names it. That is a call of the driver, which may keep the thread as that library's own may: so these are visits of
/// the transport, too.
class InContext {
 public:
  /// device: null where no library asks.
  InContext(Router& router, const std::shared_ptr<gpu::Device>& device, int peer) : router_(router) {
    if (!device) return;
    transport_ = &router_.to(peer);
    const Router::Visit visit(router_, *transport_);
    current_.emplace(*device);
  }
  ~InContext() {
    if (!transport_) return;
    const Router::Visit visit(router_, *transport_);
    current_.reset();
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  Router& router_;
  const Transport* transport_ = nullptr;
  std::optional<gpu::Device::Current> current_;
};

}  // namespace lanecast
