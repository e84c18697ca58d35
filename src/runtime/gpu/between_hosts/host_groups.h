// SPDX-License-Identifier: Apache-2.0
// The ranks of one host that a plan's group steps run among, by kernels on peer memory.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "peers/peer_group.h"
#include "plan/plan.h"
#include "runtime/bound/group_step.h"
#include "runtime/gpu/open_gpu.h"

namespace lanecast {

class HostGroups {
 public:
  /// Collective among `ranks`; alone where there is one. members: those ranks' bootstrap. Throws on all of them where
  /// it does on one.
  HostGroups(const OpenGpu& gpu, Ranks ranks, const Bootstrap& members);

  const Ranks& ranks() const { return ranks_; }

  /// The k-th group step of a plan. Such calls of all chunks run in the order in which they are enqueued, on whichever
  /// streams; those of other steps run beside them, since otherwise a chunk would wait for all that one before has to
  /// do. signature: equal on ranks that make the same call.
  void call(std::int32_t k, const GroupStep& step, const peers::PartAddresses& places, std::uint16_t signature,
            gpu::Stream stream);

  /// Of the calls from now on.
  void set_timeout(double timeout_s) const;
  /// gpu::Control of each group.
  std::vector<gpu::Address> controls() const;
  /// peer: as a rank of the communicator.
  std::optional<peers::PeerFault> fault() const;
  void poison();

 private:
  struct GroupInTurn {
    std::unique_ptr<peers::PeerGroup> group;
    gpu::OwnedEvent passed;
  };
  std::shared_ptr<gpu::Device> device_;
  Ranks ranks_;
  std::vector<GroupInTurn> turns_;  // of group steps k, k + their number, …
};

}  // namespace lanecast
