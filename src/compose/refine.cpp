// SPDX-License-Identifier: Apache-2.0
#include "compose/refine.h"

#include "plan/algebras.h"
#include "plan/meaning.h"

namespace lanecast {
namespace {

class Refining {
 public:
  explicit Refining(const Composition& composition)
      : composition_(composition), grid_({}, &composition), first_(composition.parts()) {
    for (std::int32_t part = 0; part < composition.parts(); ++part) {
      first_[part] = static_cast<std::int32_t>(origins_.size());
      const std::uint32_t cells = is_uniform(part) ? 1 : grid_.cells(part);
      for (std::uint32_t c = 0; c < cells; ++c) origins_.push_back(cells > 1 ? grid_.piece(part, c) : whole(part)[0]);
    }
  }

  bool changes() const { return origins_.size() > first_.size(); }
  Pieces origins() const { return origins_; }

  Composition refined() const {
    std::vector<Composition::Parts> inputs, outputs;
    for (int r = 0; r < composition_.size(); ++r) {
      inputs.push_back(parts(composition_.inputs(r)));
      outputs.push_back(parts(composition_.outputs(r)));
    }
    Composition result(inputs, outputs);
    std::int32_t step = 0;
    for (const Primitive& p : composition_.primitives()) {
      if (p.step != step) result.fence();
      step = p.step;
      const auto leaves = composition_.leaves(p);
      const std::vector<int> ranks(leaves.begin(), leaves.end());
      if (p.kind == Primitive::Action::multicast)
        result.multicast(p.root, ranks, pieces(composition_.pieces(p)));
      else
        result.reduce(ranks, p.root, pieces(composition_.pieces(p)), p.op);
    }
    return result;
  }

 private:
  bool is_uniform(std::int32_t part) const {
    if (grid_.cells(part) == 1) return true;
    const Fingerprints algebra(composition_.size());
    const Meaning<Fingerprints> meaning(composition_, grid_, algebra, CellScope{part, {}});
    for (int r = 0; r < composition_.size(); ++r)
      for (std::uint32_t c = 1; composition_.outputs(r).has(part) && c < grid_.cells(part); ++c)
        if (!(meaning.of(r, part, c) == meaning.of(r, part, 0))) return false;
    return true;
  }

  std::int32_t cells(std::int32_t part) const {
    const auto next = static_cast<std::size_t>(part) + 1;
    return (next < first_.size() ? first_[next] : static_cast<std::int32_t>(origins_.size())) - first_[part];
  }

  Composition::Parts parts(PartRange range) const {
    Composition::Parts parts;
    for (std::int32_t k = 0; k < range.count; ++k)
      for (std::int32_t c = 0; c < cells(range[k]); ++c) parts.push_back(first_[range[k]] + c);
    return parts;
  }

  Pieces pieces(std::span<const Piece> original) const {
    Pieces pieces;
    for (const Piece& p : original) {
      if (cells(p.part) == 1)
        pieces.push_back({first_[p.part], p.lo, p.hi});
      else
        for (std::uint32_t c = grid_.before(p.part, p.lo); c < grid_.before(p.part, p.hi); ++c)
          pieces.push_back(whole(first_[p.part] + static_cast<std::int32_t>(c))[0]);
    }
    return pieces;
  }

  const Composition& composition_;
  Grid grid_;
  std::vector<std::int32_t> first_;  // new part of each old one
  Pieces origins_;
};

}  // namespace

std::vector<std::size_t> Refined::counts(std::span<const std::size_t> original) const {
  if (origins.empty()) return {original.begin(), original.end()};
  std::vector<std::size_t> counts;
  for (const Piece& p : origins)
    counts.push_back(position(p.hi, {}, original[p.part]) - position(p.lo, {}, original[p.part]));
  return counts;
}

Refined refine(const std::shared_ptr<const Composition>& composition) {
  const Refining refining(*composition);
  if (!refining.changes()) return {composition, {}};
  return {std::make_shared<const Composition>(refining.refined()), refining.origins()};
}

}  // namespace lanecast
