// SPDX-License-Identifier: Apache-2.0
// What a collective promises: which parts a rank brings, which it ends with, and whose contributions they hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lanecast {

enum class Kind : std::uint8_t { all_gather, reduce_scatter, all_reduce };

std::string_view name_of(Kind kind);
std::optional<Kind> kind_from(std::string_view name);

/// Parts first, first + 1, …, first + count − 1.
struct PartRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
  bool has(std::int32_t part) const { return part >= first && part < first + count; }
};

struct Collective {
  Kind kind = Kind::all_reduce;
  int size = 1;           // ranks
  bool in_place = false;  // a part that a rank both brings and ends with lies at one address

  std::int32_t parts() const { return kind == Kind::all_reduce ? 1 : size; }
  bool reduces() const { return kind != Kind::all_gather; }
  PartRange inputs(int rank) const;
  PartRange outputs(int rank) const;
  /// Ranks whose contributions the finished part holds, each exactly once.
  PartRange contributors(std::int32_t part) const;

  /// The space where a block really lies: an in-place output is the input's memory.
  std::int32_t home(int rank, std::int32_t space, std::int32_t part) const;

  friend bool operator==(const Collective&, const Collective&) = default;
};

}  // namespace lanecast
