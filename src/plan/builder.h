// SPDX-License-Identifier: Apache-2.0
// Turns sends and receives of pieces into a plan: finds where values live, gives scratch, derives the dependencies.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/interval_map.h"
#include "plan/plan.h"
#include "plan/writer.h"

namespace lanecast {

class PlanBuilder final : public PlanWriter {
 public:
  PlanBuilder(const Collective& collective, int rank);

  int rank() const override { return plan_.rank; }
  const Collective& collective() const { return plan_.collective; }
  void send(int peer, const Pieces& pieces) override;
  void recv(int peer, const Pieces& pieces) override;
  void group(const Group& call) override;
  /// Numbered on from those before the last end_stages().
  void stage(int number, int of) override;
  /// What follows comes behind all stages so far.
  void end_stages();
  void begin_exchange() override;
  void end_exchange() override;

  /// Receives a contribution and adds it to the newest value. An exchange, which sends that same value meanwhile, needs
  /// the sum `apart`: written over a value still being sent, it would deadlock wherever sends are not buffered.
  enum class Sum { in_place, apart };
  void recv_reduce(int peer, const Pieces& pieces, Sum sum = Sum::in_place);

  /// Receives a second value of pieces beside the newest one, for a later reduce().
  Blocks recv_aside(int peer, const Pieces& pieces);
  /// The newest value of `pieces` becomes the sum of the sources, added from left to right.
  void reduce(const std::vector<Blocks>& sources, const Pieces& pieces);

  /// Blocks that hold the newest value of the pieces now.
  Blocks where(const Pieces& pieces);

  // For those who keep several values of one piece apart: a step as it is, which makes nothing the newest value; a
  // place in scratch memory; and blocks that hold the newest values from now on.
  Step& add(StepKind kind, int peer, const Blocks& src, const Blocks& dst);
  Block scratch(const Piece& piece);
  void keep(const Blocks& blocks, std::int32_t step = -1);

  /// Every contribution has arrived in these pieces: the step that summed them last is where an average divides.
  void complete(const Pieces& pieces);

  /// Copies what is still elsewhere to the output, assigns scratch slots and derives the dependencies.
  Plan finish(std::string algorithm);

 private:
  struct Newest {
    std::int32_t space;  // kNowhere where this rank holds no value
    std::int32_t step;   // that wrote it; −1 for the caller's input
  };
  IntervalMap<Newest>& newest(std::int32_t part);
  Blocks home(const Pieces& pieces);
  /// A step whose destination holds the newest values.
  Step& put(StepKind kind, int peer, const Blocks& src, const Blocks& dst);

  Plan plan_;
  std::unordered_map<std::int32_t, IntervalMap<Newest>> newest_;
  std::unordered_map<std::int64_t, std::uint32_t> messages_;  // per kind and peer: sent or received so far
  std::int32_t stage_ = -1, stages_ = 0, stages_before_ = 0;
  std::vector<Range> exchanges_;  // of steps
};

/// Gives every region a slot of its own for as long as it lives, and at least to the end of an exchange that it dies
/// in; slots of dead regions are used again. exchanges: ranges of steps, in order.
void assign_slots(Plan& plan, std::span<const Range> exchanges);

/// Fills Plan::dependencies from list order and blocks.
void derive_dependencies(Plan& plan);

}  // namespace lanecast
