// SPDX-License-Identifier: Apache-2.0
#include "plan/builder.h"

#include <algorithm>
#include <utility>

namespace lanecast {
namespace {

constexpr std::int32_t kNowhere = -1;

}  // namespace

PlanBuilder::PlanBuilder(const Collective& collective, int rank) {
  plan_.collective = collective;
  plan_.rank = rank;
}

IntervalMap<PlanBuilder::Newest>& PlanBuilder::newest(std::int32_t part) {
  const bool brought = plan_.collective.inputs(plan_.rank).has(part);
  return newest_.try_emplace(part, Newest{brought ? kIn : kNowhere, -1}).first->second;
}

Blocks PlanBuilder::where(const Pieces& pieces) {
  Blocks blocks;
  for (const Piece& piece : pieces) {
    auto& map = newest(piece.part);
    const auto [first, last] = map.span(piece.lo, piece.hi);
    for (std::size_t k = first; k < last; ++k) {
      const std::int32_t space = map[k].space;
      if (space == kNowhere)
        throw InternalError("plan: rank " + std::to_string(rank()) + " has no value of " + describe(piece));
      if (!blocks.empty() && blocks.back().space == space && blocks.back().part == piece.part &&
          blocks.back().hi == map.lo(k))
        blocks.back().hi = map.hi(k);
      else
        blocks.push_back({space, piece.part, map.lo(k), map.hi(k)});
    }
  }
  return blocks;
}

Block PlanBuilder::scratch(const Piece& piece) {
  plan_.regions.push_back({piece.part, piece.lo, piece.hi, -1});
  return {kScratch + static_cast<std::int32_t>(plan_.regions.size()) - 1, piece.part, piece.lo, piece.hi};
}

Blocks PlanBuilder::home(const Pieces& pieces) {
  Blocks blocks;
  for (const Piece& piece : joined(pieces))
    blocks.push_back(plan_.collective.outputs(rank()).has(piece.part) ? Block{kOut, piece.part, piece.lo, piece.hi}
                                                                      : scratch(piece));
  return blocks;
}

Step& PlanBuilder::add(StepKind kind, int peer, const Blocks& src, const Blocks& dst) {
  Step step;
  step.kind = kind;
  step.peer = peer;
  if (peer >= 0) step.ordinal = messages_[std::int64_t{peer} * 2 + (kind == StepKind::send)]++;
  const auto append = [this](const Blocks& blocks) {
    const Range range{static_cast<std::uint32_t>(plan_.blocks.size()), static_cast<std::uint32_t>(blocks.size())};
    plan_.blocks.insert(plan_.blocks.end(), blocks.begin(), blocks.end());
    return range;
  };
  if (talks(step)) step.stage = stage_;
  step.src = append(src);
  step.dst = append(dst);
  return plan_.steps.emplace_back(step);
}

void PlanBuilder::keep(const Blocks& blocks, std::int32_t step) {
  for (const Block& b : blocks) newest(b.part).assign(b.lo, b.hi, {b.space, step});
}

Step& PlanBuilder::put(StepKind kind, int peer, const Blocks& src, const Blocks& dst) {
  keep(dst, static_cast<std::int32_t>(plan_.steps.size()));
  return add(kind, peer, src, dst);
}

void PlanBuilder::send(int peer, const Pieces& pieces) {
  if (!pieces.empty()) put(StepKind::send, peer, where(pieces), {});
}

void PlanBuilder::recv(int peer, const Pieces& pieces) {
  if (!pieces.empty()) put(StepKind::recv, peer, {}, home(pieces));
}

void PlanBuilder::recv_reduce(int peer, const Pieces& pieces, Sum sum) {
  if (pieces.empty()) return;
  const Blocks src = where(pieces);
  Blocks dst;
  for (const Block& s : src) {
    const bool output = plan_.collective.outputs(rank()).has(s.part);
    const bool here = plan_.collective.home(rank(), kOut, s.part) == plan_.collective.home(rank(), s.space, s.part);
    if (sum == Sum::apart)
      dst.push_back(output && !here ? Block{kOut, s.part, s.lo, s.hi} : scratch(s.piece()));
    else if (s.space != kIn)
      dst.push_back(s);
    else
      dst.push_back(home({s.piece()}).front());
  }
  put(StepKind::recv_reduce, peer, src, dst);
}

Blocks PlanBuilder::recv_aside(int peer, const Pieces& pieces) {
  Blocks aside;
  for (const Piece& piece : joined(pieces)) aside.push_back(scratch(piece));
  add(StepKind::recv, peer, {}, aside);
  return aside;
}

void PlanBuilder::reduce(const std::vector<Blocks>& sources, const Pieces& pieces) {
  Blocks src;
  for (const Blocks& source : sources) src.insert(src.end(), source.begin(), source.end());
  put(StepKind::reduce, -1, src, home(pieces)).sources = static_cast<std::uint32_t>(sources.size());
}

void PlanBuilder::group(const Group& call) {
  const auto nothing = [](const Pieces& pieces) { return pieces.empty(); };
  if (call.ranks.size() < 2) return;
  // Of an all-to-all a member sees its own share only; one that has none still has to enter the call.
  if (call.kind != Kind::all_to_all && std::ranges::all_of(call.own, nothing)) return;
  const Blocks src = where(brought_to(call, rank()));
  const Blocks dst = home(gained_from(call, rank()));
  const auto ordinal = std::count_if(plan_.steps.begin(), plan_.steps.end(), [&](const Step& s) {
    return s.kind == StepKind::group && plan_.groups[s.group].ranks == call.ranks;
  });
  Step& step = put(StepKind::group, -1, src, dst);
  step.ordinal = static_cast<std::uint32_t>(ordinal);
  step.group = static_cast<std::int32_t>(plan_.groups.size());
  plan_.groups.push_back(call);
}

void PlanBuilder::stage(int number, int of) {
  stages_ = of;
  stage_ = stages_before_ + number;
}

void PlanBuilder::end_stages() { stages_before_ += std::exchange(stages_, 0); }

void PlanBuilder::begin_exchange() { exchanges_.push_back({static_cast<std::uint32_t>(plan_.steps.size()), 0}); }

void PlanBuilder::end_exchange() {
  exchanges_.back().count = static_cast<std::uint32_t>(plan_.steps.size()) - exchanges_.back().first;
}

void PlanBuilder::complete(const Pieces& pieces) {
  for (const Piece& piece : pieces) {
    auto& map = newest(piece.part);
    const auto [first, last] = map.span(piece.lo, piece.hi);
    for (std::size_t k = first; k < last; ++k)
      if (map[k].step >= 0) plan_.steps[map[k].step].completes = true;
  }
}

Plan PlanBuilder::finish(std::string algorithm) {
  const PartRange outputs = plan_.collective.outputs(rank());
  Blocks src, dst;
  for (std::int32_t k = 0; k < outputs.count; ++k)
    for (const Block& b : where(whole(outputs[k]))) {
      const std::int32_t part = outputs[k];
      const auto& collective = plan_.collective;
      if (collective.home(rank(), b.space, part) == collective.home(rank(), kOut, part)) continue;
      src.push_back(b);
      dst.push_back({kOut, part, b.lo, b.hi});
    }
  if (!src.empty()) put(StepKind::copy, -1, src, dst);
  plan_.algorithm = std::move(algorithm);
  assign_slots(plan_, exchanges_);
  derive_dependencies(plan_);
  plan_.steps.shrink_to_fit();  // plans are kept, and those of many ranks have thousands of blocks
  plan_.blocks.shrink_to_fit();
  plan_.regions.shrink_to_fit();
  return std::move(plan_);
}

}  // namespace lanecast
