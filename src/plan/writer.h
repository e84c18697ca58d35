// SPDX-License-Identifier: Apache-2.0
// What an algorithm writes on: it names peers and pieces, and never where they lie or what must wait for what.
#pragma once

#include <functional>

#include "plan/plan.h"

namespace lanecast {

class PlanWriter {
 public:
  virtual ~PlanWriter() = default;
  virtual int rank() const = 0;
  // Empty lists emit no step.
  virtual void send(int peer, const Pieces& pieces) = 0;
  virtual void recv(int peer, const Pieces& pieces) = 0;
  /// A whole collective among some ranks, run by the transport's own library.
  virtual void group(const Group& call) = 0;
  /// What follows belongs to that stage of so many, on all ranks alike: chunk by chunk, stages are at work side by
  /// side.
  virtual void stage(int /*number*/, int /*of*/) {}
  /// Between these, messages wait for nothing but what they carry: scratch that one has sent holds nothing new.
  virtual void begin_exchange() {}
  virtual void end_exchange() {}
};

/// An all-gather among `ranks`: ranks[k] brings the pieces own[k], and everyone ends with all of them.
using AllGather = std::function<void(PlanWriter&, const Ranks& ranks, const PieceLists& own)>;

/// A scatter among `ranks`: ranks[root] brings all pieces, ranks[k] ends with own[k].
using Scatter = std::function<void(PlanWriter&, const Ranks& ranks, int root, const PieceLists& own)>;

/// The pieces that go from one member of a group to another; made when asked for, as there are as many lists as pairs.
using Parcels = std::function<Pieces(int from, int to)>;

/// An all-to-all among `ranks`: ranks[from] brings parcels(from, to), and ranks[to] ends with it.
using AllToAll = std::function<void(PlanWriter&, const Ranks& ranks, const Parcels& parcels)>;

}  // namespace lanecast
