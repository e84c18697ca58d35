// SPDX-License-Identifier: Apache-2.0
#include "plan/composition.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "plan/interval_map.h"

namespace lanecast {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

template <class Items, class Text>
std::string list(const Items& items, const Text& text) {
  constexpr std::size_t kShown = 4;  // a message stays readable where a primitive has a thousand leaves
  std::string all;
  std::size_t k = 0;
  for (const auto& item : items) {
    if (k == kShown) return all + ", … " + std::to_string(items.size() - kShown) + " more";
    all += (k++ ? ", " : "") + text(item);
  }
  return all;
}

}  // namespace

Composition::Composition(const std::vector<Parts>& inputs, const std::vector<Parts>& outputs) {
  if (inputs.empty() || inputs.size() != outputs.size())
    throw UsageError("composition: needs the inputs and the outputs of each rank, got " +
                     std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    inputs_.push_back(range_of(inputs[r], static_cast<int>(r), "inputs"));
    outputs_.push_back(range_of(outputs[r], static_cast<int>(r), "outputs"));
  }
  last_write_.assign(parts_, kNone);
}

Composition::Composition(const Collective& buffers) {
  if (buffers.size < 1) throw UsageError("composition: needs at least one rank, not " + std::to_string(buffers.size));
  if (buffers.root < 0 || buffers.root >= buffers.size)
    throw UsageError("root: rank " + std::to_string(buffers.root) + " does not exist among " +
                     std::to_string(buffers.size));
  if (buffers.kind == Kind::all_to_all && buffers.size > kMostExchanging)
    throw UsageError("composition: an all_to_all of " + std::to_string(buffers.size) +
                     " ranks has more parts than can be numbered");
  parts_ = buffers.parts();
  last_write_.assign(parts_, kNone);
  for (int r = 0; r < buffers.size; ++r) {
    inputs_.push_back(buffers.inputs(r));
    outputs_.push_back(buffers.outputs(r));
  }
}

PartRange Composition::range_of(const Parts& parts, int rank, const char* name) {
  const auto list = std::make_shared<const PartList>(parts);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const std::string place = std::string(name) + " of rank " + std::to_string(rank) + ": part ";
    if (parts[k] < 0 || parts[k] == INT32_MAX) throw UsageError(place + std::to_string(parts[k]) + " cannot exist");
    if (list->index(parts[k]) != static_cast<std::int32_t>(k))
      throw UsageError(place + std::to_string(parts[k]) + " is named twice");
    parts_ = std::max(parts_, parts[k] + 1);
  }
  lists_.push_back(list);
  return {0, list->count(), 1, list.get()};
}

void Composition::multicast(int root, const std::vector<int>& leaves, const Pieces& pieces) {
  add({Primitive::Action::multicast, ReduceOp::sum, step_, root, {}, {}}, leaves, pieces);
}

void Composition::reduce(const std::vector<int>& leaves, int root, const Pieces& pieces, ReduceOp op) {
  add({Primitive::Action::reduce, op, step_, root, {}, {}}, leaves, pieces);
}

void Composition::fence() {
  if (!primitives_.empty() && primitives_.back().step == step_) ++step_;
}

void Composition::add(Primitive primitive, const std::vector<int>& leaves, const Pieces& pieces) {
  const std::size_t old_leaves = leaves_.size(), old_pieces = pieces_.size();
  // Many primitives have the leaves of the one before.
  const bool same = !primitives_.empty() && std::ranges::equal(this->leaves(primitives_.back()), leaves);
  if (same) {
    primitive.leaves = primitives_.back().leaves;
  } else {
    leaves_.insert(leaves_.end(), leaves.begin(), leaves.end());
    std::sort(leaves_.begin() + static_cast<std::ptrdiff_t>(old_leaves), leaves_.end());
    primitive.leaves = {static_cast<std::uint32_t>(old_leaves), static_cast<std::uint32_t>(leaves.size())};
  }
  pieces_.insert(pieces_.end(), pieces.begin(), pieces.end());
  primitive.pieces = {static_cast<std::uint32_t>(old_pieces), static_cast<std::uint32_t>(pieces.size())};
  try {
    require_sane(primitive, pieces);
    require_values(primitive);
    require_alone(primitive);
  } catch (const UsageError&) {
    leaves_.resize(old_leaves);
    pieces_.resize(old_pieces);
    throw;
  }
  const auto number = static_cast<std::uint32_t>(primitives_.size());
  for (const Piece& p : pieces) {
    writes_.push_back({p.lo, p.hi, number, last_write_[p.part]});
    last_write_[p.part] = static_cast<std::uint32_t>(writes_.size()) - 1;
  }
  primitives_.push_back(primitive);
}

void Composition::require_sane(const Primitive& primitive, const Pieces& pieces) const {
  const auto refuse = [&](const std::string& why) { throw UsageError(describe(*this, primitive) + ": " + why); };
  const auto exists = [&](int rank, const char* name) {
    if (rank < 0 || rank >= size())
      refuse(std::string(name) + ": rank " + std::to_string(rank) + " does not exist among " + std::to_string(size()));
  };
  exists(primitive.root, "root");
  const auto leaves = this->leaves(primitive);
  if (leaves.empty()) refuse("leaves: at least one is needed");
  for (const int leaf : leaves) exists(leaf, "leaves");
  if (const auto twice = std::ranges::adjacent_find(leaves); twice != leaves.end())
    refuse("leaves: rank " + std::to_string(*twice) + " is named twice");
  if (pieces.empty()) refuse("block: at least one piece is needed");
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const Piece& p = pieces[k];
    if (p.part < 0 || p.part >= parts_ || !(kZero <= p.lo && p.lo < p.hi && p.hi <= kOne))
      refuse("block: there is no " + lanecast::describe(p) + " among " + std::to_string(parts_) + " parts");
    for (std::size_t j = 0; j < k; ++j)
      if (pieces[j].part == p.part && pieces[j].lo < p.hi && p.lo < pieces[j].hi)
        refuse("block: names elements of " + lanecast::describe(p) + " twice");
  }
}

void Composition::require_values(const Primitive& primitive) const {
  const auto require = [&](int rank) {
    for (const Piece& piece : pieces(primitive))
      if (!has_value(rank, piece, primitive.step))
        throw UsageError(describe(*this, primitive) + ": rank " + std::to_string(rank) + " has no value of " +
                         lanecast::describe(piece) + ": it neither brings it nor gets it in an earlier step");
  };
  if (primitive.kind == Primitive::Action::multicast) return require(primitive.root);
  for (const int leaf : leaves(primitive)) require(leaf);
}

bool Composition::meet(const Primitive& a, const Primitive& b) const {
  if (a.kind == Primitive::Action::reduce) return writes(b, a.root);
  if (b.kind == Primitive::Action::reduce) return writes(a, b.root);
  if (a.leaves.first == b.leaves.first) return true;
  return std::ranges::any_of(leaves(a), [&](int leaf) { return writes(b, leaf); });
}

void Composition::require_alone(const Primitive& primitive) const {
  for (const Piece& piece : pieces(primitive))
    for (std::uint32_t w = last_write_[piece.part]; w != kNone; w = writes_[w].earlier) {
      const Write& write = writes_[w];
      const Primitive& other = primitives_[write.primitive];
      if (other.step != primitive.step) break;
      if (write.lo < piece.hi && piece.lo < write.hi && meet(primitive, other))
        throw UsageError(describe(*this, primitive) +
                         ": writes elements that another primitive of the same step writes, " + describe(*this, other) +
                         "; put a fence between them");
    }
}

bool Composition::writes(const Primitive& p, int rank) const {
  if (p.kind == Primitive::Action::reduce) return p.root == rank;
  return p.leaves.count == inputs_.size() || std::ranges::binary_search(leaves(p), rank);
}

bool Composition::has_value(int rank, const Piece& piece, std::int32_t step) const {
  if (inputs_[rank].has(piece.part)) return true;
  std::optional<IntervalMap<bool>> written;  // where no primitive covers the piece by itself
  for (std::uint32_t w = last_write_[piece.part]; w != kNone; w = writes_[w].earlier) {
    const Primitive& p = primitives_[writes_[w].primitive];
    if (p.step >= step || !writes(p, rank)) continue;
    if (writes_[w].lo <= piece.lo && piece.hi <= writes_[w].hi) return true;  // usual
    if (!written) written.emplace(false);
    written->assign(writes_[w].lo, writes_[w].hi, true);
  }
  if (!written) return false;
  const auto [first, last] = written->span(piece.lo, piece.hi);
  for (std::size_t k = first; k < last; ++k)
    if (!(*written)[k]) return false;
  return true;
}

void Composition::require_complete(int rank) const {
  for (std::int32_t k = 0; k < outputs_[rank].count; ++k)
    if (!has_value(rank, {outputs_[rank][k], kZero, kOne}, INT32_MAX))
      throw UsageError("composition: rank " + std::to_string(rank) + " is to end with part " +
                       std::to_string(outputs_[rank][k]) + ", but no primitive gives it all of that");
}

std::string describe(const Composition& composition, const Primitive& primitive) {
  const auto ranks = list(composition.leaves(primitive), [](int rank) { return std::to_string(rank); });
  const auto pieces = list(composition.pieces(primitive), [](const Piece& piece) { return describe(piece); });
  const std::string root = std::to_string(primitive.root), step = "step " + std::to_string(primitive.step) + ": ";
  if (primitive.kind == Primitive::Action::multicast)
    return step + "multicast from rank " + root + " to ranks " + ranks + " of " + pieces;
  return step + "reduce (" + std::string(name_of(primitive.op)) + ") from ranks " + ranks + " to rank " + root +
         " of " + pieces;
}

}  // namespace lanecast
