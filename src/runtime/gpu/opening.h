// SPDX-License-Identifier: Apache-2.0
// How ranks open their GPUs together: each its own, all the same kernels, and those that reach each other's memory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "peers/launches.h"
#include "peers/peer_group.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"
#include "runtime/gpu/open_gpu.h"
#include "topology/topology.h"

namespace lanecast {

struct GpuOptions {
  int device = 0;                            // ordinal
  std::optional<gpu::Stream> stream;         // of the call that opens it, if one does
  std::vector<std::string> library_folders;  // where NVRTC may lie
  std::string cache_folder;                  // of compiled kernels
  bool shared = false;                       // may ranks share a GPU?
  int max_ctas = 0;                          // 0: as many as serve speed
  double timeout_s = 300;
  std::function<WhereMessagesLie(const gpu::Device&)> places;  // see where_messages_lie()
  peers::Launches::Listener hears;  // of the kernels that calls among the ranks of one host launch; null: nobody
};

/// The ranks of a communicator, as those of one host find each other.
struct GpuNeighbours {
  const std::vector<std::string>& hosts;  // of each rank
  std::function<Bootstrap(const Ranks&)> among;
};

// All are collective, and throw on all ranks where they do on one.

/// Throws UsageError where two ranks use one GPU and may not, and where the stream is captured.
OpenGpu open_together(const Bootstrap& bootstrap, const GpuOptions& options);
/// Null where the ranks are on several hosts.
std::unique_ptr<peers::PeerGroup> connect_all(const Bootstrap& bootstrap, const OpenGpu& gpu,
                                              const std::vector<std::string>& hosts);
/// Where messages lie: on the device where that goes on all ranks, since they have to choose alike.
WhereMessagesLie agree_where_messages_lie(const Bootstrap& bootstrap, const GpuOptions& options,
                                          const gpu::Device& device);
}  // namespace lanecast
