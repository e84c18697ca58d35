// SPDX-License-Identifier: Apache-2.0
#include "compose/step_values.h"

#include <algorithm>

namespace lanecast {

void StepValues::expect(StripeOf stripe) {
  const std::uint64_t key = (std::uint64_t{stripe.primitive} << 32) | static_cast<std::uint32_t>(stripe.number);
  if (!index_.try_emplace(key, values_.size()).second) return;
  const auto pieces = composition_.pieces(primitive(stripe));
  Value& value = values_.emplace_back(Value{stripe, {pieces.begin(), pieces.end()}, {}});
  if (stripe.count > 1) value.pieces = cut(value.pieces, stripe.number, stripe.count);
  if (!reads_newest(stripe)) return;
  value.blocks = plan_.where(value.pieces);
  const auto reader = static_cast<std::int32_t>(stripe.primitive);
  for (const Piece& piece : value.pieces) {
    auto& readers = readers_.try_emplace(piece.part, kNobody).first->second;
    const auto [first, last] = readers.span(piece.lo, piece.hi);
    for (std::size_t k = first; k < last; ++k)
      readers[k] = readers[k] == kNobody || readers[k] == reader ? reader : kSeveral;
  }
}

bool StepValues::reads_newest(StripeOf stripe) const {
  const Primitive& p = primitive(stripe);
  if (p.kind == Primitive::Action::multicast) return p.root == plan_.rank();
  return std::ranges::binary_search(composition_.leaves(p), plan_.rank());
}

StepValues::Value& StepValues::value(StripeOf stripe) {
  return values_[index_.at((std::uint64_t{stripe.primitive} << 32) | static_cast<std::uint32_t>(stripe.number))];
}

const Blocks& StepValues::held(StripeOf stripe) { return value(stripe).blocks; }

bool StepValues::output_is_free(const Value& value) {
  const Collective& what = plan_.collective();
  for (const Piece& piece : value.pieces) {
    if (!what.outputs(plan_.rank()).has(piece.part)) return false;
    const auto known = readers_.find(piece.part);
    if (known == readers_.end()) continue;
    auto& readers = known->second;
    const auto [first, last] = readers.span(piece.lo, piece.hi);
    for (std::size_t k = first; k < last; ++k) {
      if (readers[k] == kNobody || readers[k] == static_cast<std::int32_t>(value.stripe.primitive)) continue;
      for (const Block& b : plan_.where({{piece.part, readers.lo(k), readers.hi(k)}}))
        if (what.home(plan_.rank(), b.space, b.part) == what.home(plan_.rank(), kOut, b.part)) return false;
    }
  }
  return true;
}

const Blocks& StepValues::destination(StripeOf stripe) {
  Value& value = this->value(stripe);
  if (value.fresh) return value.blocks;
  const bool stays = composition_.writes(primitive(stripe), plan_.rank()) && output_is_free(value);
  Blocks blocks;
  // As the blocks are cut that are added to, so that both sides of the step name the same pieces.
  for (const Piece& p : value.pieces) blocks.push_back(stays ? Block{kOut, p.part, p.lo, p.hi} : plan_.scratch(p));
  value.blocks = std::move(blocks);
  value.fresh = true;
  return value.blocks;
}

void StepValues::divide(StripeOf stripe, std::int32_t stage) {
  Value& value = this->value(stripe);
  const Primitive& p = primitive(stripe);
  if (value.divided || p.kind != Primitive::Action::reduce || p.op != ReduceOp::avg || p.leaves.count < 2) return;
  value.divided = true;
  Step& step = plan_.add(StepKind::reduce, -1, value.blocks, value.blocks);
  step.completes = true;
  step.op = static_cast<std::int8_t>(p.op);
  step.divisor = p.leaves.count;
  step.stage = stage;
}

void StepValues::fence() {
  for (const Value& value : values_)
    if (value.fresh && composition_.writes(primitive(value.stripe), plan_.rank())) plan_.keep(value.blocks);
  values_.clear();
  index_.clear();
  readers_.clear();
}

}  // namespace lanecast
