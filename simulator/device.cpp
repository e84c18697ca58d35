// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <cstring>
#include <utility>

#include "base/copy.h"
#include "base/store_choice.h"
#include "device/host/kernels.h"
#include "device/host/variant.h"

namespace lanecast {
namespace simulator {
namespace {

struct State {
  Devices devices;
  double owed_s = 0;
};
State state;  // of the one simulation that this program is, in one thread

}  // namespace

void set_devices(const Devices& devices) { state.devices = devices; }

bool holds_data() { return state.devices.holds_data; }

void owe(std::size_t moved_bytes) { state.owed_s += static_cast<double>(moved_bytes) / state.devices.memory_rate_Bps; }

double take_owed_s() { return std::exchange(state.owed_s, 0); }

}  // namespace simulator

void copy(std::byte* to, const std::byte* from, std::size_t bytes, Stores /*stores*/) {
  simulator::owe(2 * bytes);
  if (simulator::holds_data()) std::memcpy(to, from, bytes);
}

void wait_for_stores(Stores /*stores*/) {}

// By the clock of this machine a choice would differ from run to run.
double StoreChoice::ratio() const { return 0; }

StoreChoice::Way StoreChoice::choose(std::size_t /*bytes*/) { return {Stores::ordinary, false}; }

void host::reduce(DType dtype, ReduceOp op, void* dst, std::span<const void* const> sources, std::size_t count,
                  const Finish& finish) {
  simulator::owe((sources.size() + 1) * count * size_of(dtype));
  if (simulator::holds_data()) reduce_with(*usable_variants().front(), {dtype, op, dst, sources, count, finish});
}

}  // namespace lanecast
