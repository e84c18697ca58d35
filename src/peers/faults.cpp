// SPDX-License-Identifier: Apache-2.0
#include "peers/faults.h"

#include <algorithm>

namespace lanecast::peers {

Faults::Faults(const std::shared_ptr<gpu::Device>& device)
    : memory_(device, sizeof(gpu::FaultRecord)),
      clock_(std::make_unique<HostClock>(&reinterpret_cast<gpu::FaultRecord*>(memory_.host())->ran_ns)) {}

void Faults::set_timeout(double timeout_s, double watched) {
  const double late_s = clock_->serve(timeout_s);
  // No deadline, which is infinity, becomes 127 years, which added to the time so far fit into 64 bits of nanoseconds.
  constexpr double kMost_s = 4e9;
  const auto ns = [&](double seconds) { return static_cast<gpu::u64>((std::min(seconds, kMost_s) + late_s) * 1e9); };
  timeout_ns_ = ns(watched * timeout_s);
  unwatched_timeout_ns_ = ns(timeout_s);
}

std::optional<PeerFault> Faults::met() const {
  const auto* record = reinterpret_cast<const volatile gpu::FaultRecord*>(memory_.host());
  // Written last by the device; acquire, so that the rest is read after it.
  const gpu::u32 what = __atomic_load_n(&record->fault, __ATOMIC_ACQUIRE);
  if (what == static_cast<gpu::u32>(gpu::Fault::none)) return {};
  return PeerFault{static_cast<gpu::Fault>(what),
                   static_cast<int>(record->peer),
                   static_cast<std::uint16_t>(record->signature),
                   static_cast<std::uint16_t>(record->found),
                   static_cast<gpu::WaitKind>(record->place),
                   record->bytes,
                   record->found_bytes,
                   record->round,
                   record->call};
}

void Faults::poison() {
  auto* record = reinterpret_cast<gpu::FaultRecord*>(memory_.host());
  __atomic_store_n(&record->poison, 1u, __ATOMIC_RELAXED);  // orders nothing: the kernels only stop
}

}  // namespace lanecast::peers
