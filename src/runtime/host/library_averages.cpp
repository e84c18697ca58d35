// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/library_averages.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "device/host/kernels.h"

namespace lanecast {
namespace {

constexpr std::uint32_t kOverranges = 8;  // more than overrange_of() gives for any number of ranks

// A library hands no more to it than the values, so there is a function for each way in which sums may lie.
template <DType dtype, std::uint32_t overrange>
void add(void* in, void* in_and_out, int* elements, void* /*datatype*/) {
  const void* const sources[] = {in, in_and_out};
  host::reduce(dtype, ReduceOp::avg, in_and_out, sources, static_cast<std::size_t>(*elements), {1.0, overrange});
}

template <DType dtype, std::uint32_t... overrange>
GroupAdd* one_of(std::uint32_t wanted, std::integer_sequence<std::uint32_t, overrange...> /*all*/) {
  static constexpr std::array<GroupAdd*, kOverranges> kAdders{&add<dtype, overrange>...};
  if (wanted >= kOverranges) throw InternalError("no adder for an average among so many ranks");
  return kAdders[wanted];
}

}  // namespace

GroupAdd* average_adder(DType dtype, std::uint32_t overrange) {
  constexpr auto all = std::make_integer_sequence<std::uint32_t, kOverranges>();
  if (overrange == 0) return nullptr;
  if (dtype == DType::float32) return one_of<DType::float32>(overrange, all);
  if (dtype == DType::float64) return one_of<DType::float64>(overrange, all);
  return nullptr;
}

}  // namespace lanecast
