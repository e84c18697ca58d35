// SPDX-License-Identifier: Apache-2.0
// The links between hosts, timed by all ranks together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/agree/bootstrap_over.h"
#include "runtime/watch/patience.h"
#include "runtime/wires/link_timer.h"
#include "runtime/wires/links.h"
#include "topology/topology.h"

namespace lanecast {

/// Where a rank's long messages lie while links are timed: room for one that leaves and one that comes.
struct ProbeMemory {
  static constexpr std::size_t kBytes = 2 * LinkProbe::kLongBytes;
  std::byte* base = nullptr;
};

struct TimingParts {
  Router& router;
  const Gathering& gathering;  // of all ranks
  const Bootstrap& bootstrap;  // over the same
  const Topology& topology;
  const std::vector<std::string>& hosts;  // of each rank
  ProbeMemory memory;
  std::function<double()> now_s;  // by this rank's own clock
  Rivals rivals = Rivals::ranks;  // messages are waited for as in a call
};

/// Collective. All hosts at once, and all ranks of a host that have a counterpart on each: first each host with the
/// next, then with one far away, however many there are. The slowest rate counts, and the middle latency.
TimedLinks time_links(const TimingParts& parts);

}  // namespace lanecast
