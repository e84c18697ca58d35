// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/part_addresses.h"

#include <algorithm>

#include "base/dtype.h"
#include "transport/span_cursor.h"

namespace lanecast {
namespace {

constexpr gpu::Address kVector = 16;  // bytes that kernels move by one access, where addresses allow it

std::vector<gpu::Address> places_in(std::span<const Span> spans, std::span<const std::size_t> counts,
                                    std::size_t element_bytes) {
  std::vector<gpu::Address> places;
  SpanCursor cursor(spans);
  for (const std::size_t count : counts) {
    const std::size_t bytes = count * element_bytes;
    if (cursor.together() < bytes) return {};
    places.push_back(bytes == 0 ? 0 : gpu::address_of(cursor.take(bytes).data));
    if (places.back() % kVector != 0) return {};
  }
  return places;
}

}  // namespace

peers::PartAddresses part_addresses(const GroupStep& step) {
  const std::span<const std::size_t> counts = step.call.counts;
  const std::size_t element_bytes = size_of(step.call.dtype);
  const std::size_t members = step.group.ranks.size();
  peers::PartAddresses places;
  switch (step.call.kind) {
    case Kind::all_gather:
      places.out = places_in(step.dst, counts, element_bytes);
      break;
    case Kind::reduce_scatter:
      places.in = places_in(step.src, counts, element_bytes);
      break;
    case Kind::all_to_all:
      places.in = places_in(step.src, counts.first(members), element_bytes);
      places.out = places_in(step.dst, counts.subspan(members), element_bytes);
      break;
    default:  // gathers and scatters of a group have a root, and there alone such parts
      break;
  }
  return places;
}

bool is_in_place(const GroupStep& step, int rank, const peers::PartAddresses& places) {
  const Ranks& ranks = step.group.ranks;
  const auto me = static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
  if (step.call.kind == Kind::all_gather)
    return step.src.size() == 1 && !places.out.empty() && places.out[me] == gpu::address_of(step.src[0].data);
  if (step.call.kind == Kind::reduce_scatter)
    return step.dst.size() == 1 && !places.in.empty() && places.in[me] == gpu::address_of(step.dst[0].data);
  return false;
}

}  // namespace lanecast
