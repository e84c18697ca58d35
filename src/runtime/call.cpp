// SPDX-License-Identifier: Apache-2.0
#include "runtime/call.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

struct Extent {
  const std::byte* first;
  std::size_t bytes;
  const std::byte* last() const { return first + bytes; }
};

std::size_t elements_before(const Call& call, int part) {
  if (call.counts.empty()) return call.count * static_cast<std::size_t>(part);
  std::size_t total = 0;
  for (int p = 0; p < part; ++p) total += call.counts[p];
  return total;
}

}  // namespace

std::size_t full_bytes(const Call& call, int size) {
  const int parts = call.kind == Kind::all_reduce ? 1 : size;
  return elements_before(call, parts) * size_of(call.dtype);
}

bool check(const Call& call, int rank, int size) {
  const auto refuse = [&](const std::string& what) {
    throw UsageError("rank " + std::to_string(rank) + ": " + std::string(name_of(call.kind)) + ": " + what);
  };
  const std::size_t element = size_of(call.dtype);
  if (!call.counts.empty() && (call.kind == Kind::all_reduce || call.counts.size() != static_cast<std::size_t>(size)))
    refuse("counts: needs one per rank (" + std::to_string(size) + "), got " + std::to_string(call.counts.size()));
  // Keeps every sum of counts, and every offset in bytes, within 64 bits.
  const std::size_t most = SIZE_MAX / element / static_cast<std::size_t>(size) / 2;
  if (call.count > most || std::ranges::any_of(call.counts, [&](std::size_t count) { return count > most; }))
    refuse("count: larger than any memory");
  if (call.kind != Kind::all_gather && !supports(call.op, call.dtype))
    refuse("op " + std::string(name_of(call.op)) + " does not take dtype " + std::string(name_of(call.dtype)));
  if (call.chunks < 0) refuse("chunks: " + std::to_string(call.chunks) + " is negative");

  const std::size_t full = full_bytes(call, size);
  const std::size_t mine = (call.kind == Kind::all_reduce ? call.count : count_of(call, rank)) * element;
  const Extent in{static_cast<const std::byte*>(call.in), call.kind == Kind::all_gather ? mine : full};
  const Extent out{static_cast<const std::byte*>(call.out), call.kind == Kind::reduce_scatter ? mine : full};
  if (in.bytes > 0 && in.first == nullptr) refuse("input: null pointer");
  if (out.bytes > 0 && out.first == nullptr) refuse("output: null pointer");
  if (full == 0 || in.first >= out.last() || out.first >= in.last()) return false;

  const std::size_t before = call.kind == Kind::all_reduce ? 0 : elements_before(call, rank) * element;
  const bool in_place =
      call.kind == Kind::reduce_scatter ? out.first == in.first + before : in.first == out.first + before;
  if (!in_place && in.bytes > 0 && out.bytes > 0)
    refuse("input and output overlap; in-place needs rank " + std::to_string(rank) + "'s share at the same address");
  return in_place;
}

}  // namespace lanecast
