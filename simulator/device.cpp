// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <cstring>
#include <simgrid/s4u.hpp>
#include <utility>
#include <vector>

#include "base/copy.h"
#include "device/host/kernels.h"
#include "device/host/variant.h"

namespace lanecast {
namespace simulator {
namespace {

struct State {
  Devices devices;
  std::vector<double> owed_s;  // by actor
};
State state;  // of the one simulation that this program is; SimGrid runs its actors in one thread

}  // namespace

void set_devices(const Devices& devices, int ranks) {
  state.devices = devices;
  state.owed_s.assign(ranks + 1, 0);  // the actors' numbers begin at 1
}

bool holds_data() { return state.devices.holds_data; }

void owe(std::size_t moved_bytes) {
  state.owed_s.at(simgrid::s4u::this_actor::get_pid()) +=
      static_cast<double>(moved_bytes) / state.devices.memory_rate_Bps;
}

void settle() {
  double& owed_s = state.owed_s.at(simgrid::s4u::this_actor::get_pid());
  if (owed_s == 0) return;
  simgrid::s4u::this_actor::sleep_for(std::exchange(owed_s, 0));
}

}  // namespace simulator

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores /*stores*/) {
  simulator::owe(2 * bytes);
  if (simulator::holds_data()) std::memcpy(to, from, bytes);
}

void wait_for_stores(Stores /*stores*/) {}

void host::reduce(DType dtype, ReduceOp op, void* dst, std::span<const void* const> sources, std::size_t count,
                  const Finish& finish) {
  simulator::owe((sources.size() + 1) * count * size_of(dtype));
  if (simulator::holds_data()) reduce_with(*usable_variants().front(), {dtype, op, dst, sources, count, finish});
}

}  // namespace lanecast
