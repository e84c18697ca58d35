// SPDX-License-Identifier: Apache-2.0
// Plans that the GPUs of one host run as programs: each call is one launch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "peers/peer_group.h"
#include "runtime/bound/recent_calls.h"
#include "runtime/gpu/bound_program.h"
#include "runtime/gpu/enqueued_calls.h"
#include "select/choose.h"
#include "topology/topology.h"

namespace lanecast {

class InHostPrograms {
 public:
  /// All of them outlive it.
  InHostPrograms(std::shared_ptr<gpu::Device> device, const Topology& topology, peers::PeerGroup& peers,
                 EnqueuedCalls& enqueued)
      : device_(std::move(device)), topology_(topology), peers_(peers), enqueued_(enqueued) {}

  /// Calls need it. Collective.
  void open(const Bootstrap& bootstrap) { peers_.open_programs(bootstrap); }
  bool is_open() const { return peers_.programs() != nullptr; }

  /// Throws UsageError for a plan that is none for programs. stages: of all ranks' plans, see ProgramShape.
  std::shared_ptr<const BoundProgram> bind(Plan plan, Shape shape, Slicing slicing,
                                           std::vector<std::int32_t> stages) const;
  /// How programs of these plans, which are all ranks', cut their parts. chunks: of a lane; 0: as many as serve speed.
  Slicing slicing_of(const std::vector<Plan>& plans, bool in_stages, const Shape& shape, int chunks) const;

  /// By the plan of an algorithm. choose: asked once for equal calls. The call's chunks are as in slicing_of().
  void enqueue(const Call& call, bool in_place, const std::function<Choice()>& choose, gpu::Stream stream);
  /// A composition's.
  void enqueue(const std::shared_ptr<const BoundProgram>& program, const void* in, void* out, gpu::Stream stream);

 private:
  static constexpr std::size_t kMost = 256;

  std::shared_ptr<const BoundProgram> named(const Call& call, bool in_place, const std::function<Choice()>& choose);

  std::shared_ptr<gpu::Device> device_;
  const Topology& topology_;
  peers::PeerGroup& peers_;
  EnqueuedCalls& enqueued_;
  RecentCalls<std::shared_ptr<const BoundProgram>> named_{kMost};
};

}  // namespace lanecast
