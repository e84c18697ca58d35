// SPDX-License-Identifier: Apache-2.0
// Reductions as the executor asks for them, by the fastest kernel that this CPU can run. In a file of its own because
// the simulator has another, which takes the time of a simulated device.
#include "device/host/kernels.h"
#include "device/host/variant.h"

namespace lanecast::host {

void reduce(DType dtype, ReduceOp op, void* dst, std::span<const void* const> sources, std::size_t count,
            const Finish& finish) {
  reduce_with(*usable_variants().front(), {dtype, op, dst, sources, count, finish});
}

}  // namespace lanecast::host
