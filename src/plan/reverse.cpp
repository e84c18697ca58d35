// SPDX-License-Identifier: Apache-2.0
#include "plan/reverse.h"

namespace lanecast {
namespace {

/// Records what an algorithm does on this rank.
class Tape final : public PlanWriter {
 public:
  explicit Tape(int rank) : rank_(rank) {}
  int rank() const override { return rank_; }
  void send(int peer, const Pieces& pieces) override { add({StepKind::send, peer, pieces, {}}); }
  void recv(int peer, const Pieces& pieces) override { add({StepKind::recv, peer, pieces, {}}); }
  void group(const Group& call) override { add({StepKind::group, -1, {}, call}); }
  void stage(int number, int of) override {
    stage_ = number;
    stages = of;
  }

  struct Move {
    StepKind kind;
    int peer;
    Pieces pieces;
    Group call;
    int stage = 0;
  };
  std::vector<Move> moves;
  int stages = 0;

 private:
  void add(Move move) {
    move.stage = stage_;
    moves.push_back(std::move(move));
  }
  int rank_;
  int stage_ = 0;
};

Kind dual(Kind kind) {
  switch (kind) {
    case Kind::all_gather:
      return Kind::reduce_scatter;
    case Kind::broadcast:
      return Kind::reduce;
    case Kind::scatter:
      return Kind::gather;
    default:
      throw InternalError("plan: nothing that is played backwards calls " + std::string(name_of(kind)));
  }
}

}  // namespace

void reverse(PlanBuilder& plan, Returning how, const std::function<void(PlanWriter&)>& forward) {
  Tape tape(plan.rank());
  forward(tape);
  if (tape.stages != 0) plan.stage(0, tape.stages);  // also where this rank has nothing to do in them
  for (auto move = tape.moves.rbegin(); move != tape.moves.rend(); ++move) {
    if (tape.stages != 0) plan.stage(tape.stages - 1 - move->stage, tape.stages);
    if (move->kind == StepKind::recv) {
      plan.send(move->peer, move->pieces);
    } else if (move->kind == StepKind::group) {
      move->call.kind = dual(move->call.kind);
      plan.group(move->call);
    } else if (how == Returning::added) {
      plan.recv_reduce(move->peer, move->pieces);
    } else {
      plan.recv(move->peer, move->pieces);
    }
  }
}

}  // namespace lanecast
