// SPDX-License-Identifier: Apache-2.0
// What a communicator has enqueued on its GPU, by whatever runs it: in which order, how errors call it, and what stays
// until it has run.
#pragma once

#include <memory>
#include <utility>

#include "runtime/gpu/kept_programs.h"
#include "runtime/gpu/known_calls.h"
#include "runtime/gpu/order_of_calls.h"

namespace lanecast {

struct EnqueuedCalls {
  EnqueuedCalls(const gpu::Device& device, OrderOfCalls calls, int rank)
      : order(std::move(calls)), known(rank), programs(device, order, known) {}
  EnqueuedCalls(const EnqueuedCalls&) = delete;
  EnqueuedCalls& operator=(const EnqueuedCalls&) = delete;

  OrderOfCalls order;
  KnownCalls known;
  KeptPrograms programs;
};

}  // namespace lanecast
