// SPDX-License-Identifier: Apache-2.0
// A collective that is ready to be started: once, or again and again.
#pragma once

#include <memory>

#include "runtime/host/execution.h"
#include "runtime/watch/work.h"

namespace lanecast {

struct BoundCall {
  std::shared_ptr<Execution> execution;
  std::shared_ptr<OrderedCall> on_gpu;  // instead: messages of a call that a stream orders
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  bool running = false;  // the calls before it have finished
  Deadline deadline;
  std::shared_ptr<Work> work = std::make_shared<Work>();

  /// A call that a stream orders.
  static std::shared_ptr<BoundCall> of_device(std::shared_ptr<OrderedCall> on_gpu, double timeout_s) {
    auto call = std::make_shared<BoundCall>();
    call->on_gpu = std::move(on_gpu);
    call->deadline.timeout_s = timeout_s;
    return call;
  }

  std::shared_ptr<OrderedCall> shared() const { return on_gpu ? on_gpu : execution; }
  OrderedCall& call() const { return on_gpu ? *on_gpu : *execution; }
};

}  // namespace lanecast
