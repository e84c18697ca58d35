// SPDX-License-Identifier: Apache-2.0
// What moves, named without addresses: a piece is a cut of a part, a block says in which space a piece lies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/fraction.h"

namespace lanecast {

/// [lo, hi) of a part. A part is what one rank contributes or owns: rank r's share of an all-gather, say.
struct Piece {
  std::int32_t part = 0;
  Fraction lo = kZero;
  Fraction hi = kOne;
  friend bool operator==(const Piece&, const Piece&) = default;
};
using Pieces = std::vector<Piece>;

inline constexpr std::int32_t kIn = 0;       // the caller's input
inline constexpr std::int32_t kOut = 1;      // the caller's output
inline constexpr std::int32_t kScratch = 2;  // kScratch + k: the plan's scratch region k

struct Block {
  std::int32_t space = kIn;
  std::int32_t part = 0;
  Fraction lo = kZero;
  Fraction hi = kOne;

  Piece piece() const { return {part, lo, hi}; }
  bool in_scratch() const { return space >= kScratch; }
  friend bool operator==(const Block&, const Block&) = default;
};
using Blocks = std::vector<Block>;

/// Part of an array that many share.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

Pieces whole(std::int32_t part);

/// The k-th of n equal cuts of every piece.
Pieces cut(const Pieces& pieces, int k, int n);

/// Neighbouring pieces of a part, written as one; the order of the list stays.
Pieces joined(const Pieces& pieces);
Pieces pieces_of(const Block* first, const Block* last);

/// Do two lists name the same pieces in the same order, however they cut them into blocks?
bool same_pieces(std::span<const Block> a, std::span<const Block> b);

std::string describe(const Piece& piece);
std::string describe(const Block& block);

}  // namespace lanecast
