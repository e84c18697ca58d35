// SPDX-License-Identifier: Apache-2.0
#include "runtime/bound/shape_of_call.h"

#include <algorithm>

#include "runtime/bound/signature.h"

namespace lanecast {
namespace {

std::vector<std::size_t> copy(std::span<const std::size_t> counts) { return {counts.begin(), counts.end()}; }

}  // namespace

bool describes(const Call& call, const Shape& shape) {
  return shape.dtype == call.dtype && shape.op == call.op && shape.chunks == call.chunks && shape.slice == call.slice &&
         shape.is_barrier == call.is_barrier && shape.count == call.count &&
         std::ranges::equal(shape.counts, call.counts) && std::ranges::equal(shape.send_counts, call.send_counts) &&
         std::ranges::equal(shape.recv_counts, call.recv_counts);
}

Shape shape_of(const Call& call) {
  return {call.dtype,
          call.op,
          call.chunks,
          call.slice,
          call.is_barrier,
          call.count,
          copy(call.counts),
          copy(call.send_counts),
          copy(call.recv_counts)};
}

CallRecord record_of(const Plan& plan, const Shape& shape) {
  CallRecord record{.bytes = full_bytes(plan, shape),
                    .chunks = shape.chunks,
                    .root = has_root(plan.collective.kind) ? plan.collective.root : -1,
                    .kind = plan.collective.kind,
                    .op = shape.op,
                    .dtype = shape.dtype};
  plan.algorithm.copy(record.algorithm.data(), record.algorithm.size() - 1);
  return record;
}

}  // namespace lanecast
