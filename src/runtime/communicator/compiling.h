// SPDX-License-Identifier: Apache-2.0
// What a composition and its buffers become on a machine: checked, shaped, proven and lowered; nothing is bound yet.
#pragma once

#include <vector>

#include "compose/own_ring.h"
#include "compose/refine.h"
#include "runtime/bound/layout.h"
#include "runtime/request/composed_call.h"
#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast {

/// Of a GPU among those of its host.
OwnLink link_of(const WayTimes& times);

class Compiling {
 public:
  /// Throws UsageError for a shape that does not fit the topology.
  Compiling(const ComposedCall& call, const Topology& topology, int rank)
      : call_(call), composition_(*call.composition), rank_(rank), machine_(topology, call.shaping) {}

  /// Throws UsageError for what is wrong with the call.
  void check(bool reproducible) const;
  /// After check(). usual_chunks: where the call names none; 0: by size.
  void shape(int usual_chunks);
  /// After shape(): among GPUs that all reach each other, where the call names neither ring nor hierarchy.
  void choose_ring(const WayTimes& times);
  /// Throws UsageError for transports of this call alone, which GPUs' memory does not go by.
  void refuse_transports() const;
  /// After shape(): of all ranks, with buffers apart and in place. Throws UsageError for what GPUs cannot run.
  std::vector<Plan> all_plans() const;
  /// This rank's. Throws UsageError for buffers that lie wrong to each other, and PlanError where a proof fails.
  Plan plan() const;

  const Shape& shape() const { return shape_; }
  const Machine& machine() const { return machine_; }

 private:
  void check(const Primitive& p, bool reproducible) const;
  void prove(bool in_place) const;
  Plan lowered(int rank, bool in_place) const;

  const ComposedCall& call_;
  const Composition& composition_;
  int rank_;
  Machine machine_;
  Refined refined_;
  Shape shape_;
};

}  // namespace lanecast
