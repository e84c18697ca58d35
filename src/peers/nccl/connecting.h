// SPDX-License-Identifier: Apache-2.0
// How ranks of NCCL's come together, in a thread of their own: inside NCCL nothing has a deadline.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/gpu/device.h"
#include "device/gpu/nccl.h"

namespace lanecast::nccl {

/// Where a rank is, and what it takes.
struct NcclPlace {
  std::shared_ptr<gpu::Device> device;
  std::shared_ptr<const gpu::Nccl> nccl;
  int rank = 0, size = 1;
  int max_ctas = 0;  // 0: as many as NCCL takes
};

struct OpenedNccl {
  gpu::NcclComm comm = nullptr;
  std::string error;  // that NCCL has met on this rank; then there is no communicator
};
/// A communicator whose ranks have called every collective once: no later call connects them, and so none waits for
/// them in the caller's thread. Returns when all have come. keep_waiting: asked meanwhile, with the seconds since;
/// throws to give up, which leaves the thread behind with what it holds.
OpenedNccl opened_apart(const NcclPlace& place, const gpu::NcclUniqueId& id,
                        const std::function<void(double waited_s)>& keep_waiting);

}  // namespace lanecast::nccl
