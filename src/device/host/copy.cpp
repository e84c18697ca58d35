// SPDX-License-Identifier: Apache-2.0
// Copies of rows that lie apart.
#include "device/host/copy.h"

#include <cstring>
#include <type_traits>

namespace lanecast::host {
namespace {

/// With a RowBytes known to the compiler a row is one move instead of a call.
template <class RowBytes>
void copy_rows(Rows dst, ConstRows src, RowBytes row_bytes, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(dst.first + row * dst.stride_bytes, src.first + row * src.stride_bytes, row_bytes);
}

template <std::size_t bytes>
using Fixed = std::integral_constant<std::size_t, bytes>;

}  // namespace

void copy_strided(Rows dst, ConstRows src, std::size_t row_bytes, std::size_t rows) {
  if (dst.stride_bytes == row_bytes && src.stride_bytes == row_bytes) {
    row_bytes *= rows;
    rows = 1;
  }
  if (row_bytes == 0) return;
  switch (row_bytes) {
    case 4:
      return copy_rows(dst, src, Fixed<4>{}, rows);
    case 8:
      return copy_rows(dst, src, Fixed<8>{}, rows);
    case 16:
      return copy_rows(dst, src, Fixed<16>{}, rows);
    default:
      return copy_rows(dst, src, row_bytes, rows);
  }
}

}  // namespace lanecast::host
