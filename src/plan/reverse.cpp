// SPDX-License-Identifier: Apache-2.0
#include "plan/reverse.h"

namespace lanecast {
namespace {

/// Records what an all-gather does on this rank.
class Tape final : public PlanWriter {
 public:
  explicit Tape(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  void send(int peer, const Pieces& pieces) override { moves.push_back({StepKind::send, peer, pieces, {}, {}}); }
  void recv(int peer, const Pieces& pieces) override { moves.push_back({StepKind::recv, peer, pieces, {}, {}}); }
  void group(GroupKind, const Ranks& ranks, const PieceLists& own) override {
    moves.push_back({StepKind::group, -1, {}, ranks, own});
  }

  struct Move {
    StepKind kind;
    int peer;
    Pieces pieces;
    Ranks ranks;
    PieceLists own;
  };
  std::vector<Move> moves;

 private:
  int rank_;
};

}  // namespace

void reverse(PlanBuilder& plan, const AllGather& all_gather, const Ranks& ranks, const PieceLists& own) {
  Tape tape(plan.rank());
  all_gather(tape, ranks, own);
  for (auto move = tape.moves.rbegin(); move != tape.moves.rend(); ++move) {
    if (move->kind == StepKind::send)
      plan.recv_reduce(move->peer, move->pieces);
    else if (move->kind == StepKind::recv)
      plan.send(move->peer, move->pieces);
    else
      plan.group(GroupKind::reduce_scatter, move->ranks, move->own);
  }
}

}  // namespace lanecast
