// SPDX-License-Identifier: Apache-2.0
// Copies of rows that lie apart, as in packing a block out of a matrix.
#pragma once

#include <cstddef>

namespace lanecast::host {

struct Rows {
  std::byte* first;
  std::size_t stride_bytes;  // from the start of one row to the start of the next
};

struct ConstRows {
  const std::byte* first;
  std::size_t stride_bytes;
};

/// Copies `rows` rows of `row_bytes` each. dst and src must not overlap. Any alignment.
void copy_strided(Rows dst, ConstRows src, std::size_t row_bytes, std::size_t rows);

}  // namespace lanecast::host
