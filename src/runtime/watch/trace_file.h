// SPDX-License-Identifier: Apache-2.0
// A rank's calls and messages as lines of JSON, for `lanecast trace` and for people.
#pragma once

#include <string>

#include "runtime/watch/call_log.h"
#include "topology/topology.h"

namespace lanecast {

struct TraceOwner {
  std::uint64_t communicator = 0;
  int rank = 0;
  const Topology& topology;
  std::string transports;
};

/// Writes <directory>/<communicator>.rank<r>.jsonl, over what an earlier call has written; a reader never sees half of
/// it. Makes the directory where it is missing. Throws TransportError naming the path.
void write_trace(const std::string& directory, const TraceOwner& owner, const CallLog& log);

}  // namespace lanecast
