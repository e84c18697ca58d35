// SPDX-License-Identifier: Apache-2.0
#include "buffers.h"

#include <algorithm>
#include <utility>

#include "memory.h"

namespace lanecast::simulator {
namespace {

/// Unique for each rank and element, and small enough for exact sums.
std::int64_t value(int rank, std::size_t element) {
  return static_cast<std::int64_t>(element) * 10'007 + std::int64_t{rank} * rank * 3 + rank;
}

std::int64_t sum_of_values(int ranks, std::size_t element) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, element);
  return sum;
}

}  // namespace

Buffers::Buffers(const Job& job, int rank) : job_(job), rank_(rank), kind_(job.kind()) {
  if (!job.is_checked) {
    data_ = pretended_buffer(job.bytes);
    return;
  }
  const std::size_t part = elements() / job.ranks;
  real_.resize(elements());
  for (std::size_t i = 0; i < elements(); ++i)
    if (kind_ != Kind::all_gather || i / part == static_cast<std::size_t>(rank)) real_[i] = value(rank, i);
  data_ = reinterpret_cast<std::byte*>(real_.data());
}

Call Buffers::call() const {
  const std::size_t part_bytes = job_.bytes / job_.ranks;
  std::byte* const own = data_ + rank_ * part_bytes;
  Call call;
  call.kind = kind_;
  call.in = kind_ == Kind::all_gather ? own : data_;
  call.out = kind_ == Kind::reduce_scatter ? own : data_;
  call.count = kind_ == Kind::all_reduce ? elements() : elements() / job_.ranks;
  call.dtype = DType::int64;
  call.algorithm = job_.algorithm;
  call.chunks = job_.chunks;
  return call;
}

ComposedCall Buffers::composed(std::shared_ptr<const Composition> composition) const {
  const Call same = call();
  ComposedCall composed;
  composed.composition = std::move(composition);
  composed.in = same.in;
  composed.out = same.out;
  composed.count = same.count;
  composed.dtype = same.dtype;
  composed.shaping.factors = job_.factors;
  composed.chunks = same.chunks;
  composed.proven = false;  // each rank would prove the plans of all
  return composed;
}

std::size_t Buffers::wrong() const {
  if (!job_.is_checked) return 0;
  const std::size_t part = elements() / job_.ranks;
  std::size_t begin = 0, end = elements();
  if (kind_ == Kind::reduce_scatter) begin = rank_ * part, end = begin + part;
  std::size_t wrong = 0;
  for (std::size_t i = begin; i < end; ++i)
    wrong +=
        real_[i] != (kind_ == Kind::all_gather ? value(static_cast<int>(i / part), i) : sum_of_values(job_.ranks, i));
  return wrong;
}

}  // namespace lanecast::simulator
