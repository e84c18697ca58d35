// SPDX-License-Identifier: Apache-2.0
#include "plan/block.h"

#include <algorithm>

namespace lanecast {

Pieces whole(std::int32_t part) { return {Piece{part, kZero, kOne}}; }

Pieces cut(const Pieces& pieces, int k, int n) {
  Pieces result;
  result.reserve(pieces.size());
  for (const Piece& p : pieces) result.push_back({p.part, between(p.lo, p.hi, k, n), between(p.lo, p.hi, k + 1, n)});
  return result;
}

Pieces joined(const Pieces& pieces) {
  Pieces result;
  result.reserve(pieces.size());
  for (const Piece& p : pieces) {
    if (!result.empty() && result.back().part == p.part && result.back().hi == p.lo)
      result.back().hi = p.hi;
    else
      result.push_back(p);
  }
  return result;
}

Pieces pieces_of(const Block* first, const Block* last) {
  Pieces result;
  result.reserve(last - first);
  for (; first != last; ++first) result.push_back(first->piece());
  return joined(result);
}

bool same_pieces(std::span<const Block> a, std::span<const Block> b) {
  const auto same = [](const Block& x, const Block& y) { return x.piece() == y.piece(); };
  if (std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) return true;  // usual
  return pieces_of(a.data(), a.data() + a.size()) == pieces_of(b.data(), b.data() + b.size());
}

std::string describe(const Piece& piece) {
  std::string text = "part " + std::to_string(piece.part);
  if (piece.lo == kZero && piece.hi == kOne) return text;
  return text + "[" + piece.lo.str() + "," + piece.hi.str() + ")";
}

std::string describe(const Block& block) {
  const std::string space = block.in_scratch()    ? "scratch" + std::to_string(block.space - kScratch)
                            : block.space == kIn  ? "in"
                            : block.space == kOut ? "out"
                                                  : "space" + std::to_string(block.space);
  return space + "/" + describe(block.piece());
}

}  // namespace lanecast
