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
    data_ = pretended_buffer(job.bytes * (kind_ == Kind::all_to_all ? 2 : 1));
    return;
  }
  real_.resize(elements());
  for (std::size_t i = 0; i < elements(); ++i)
    if (brings(i)) real_[i] = value(rank, i);
  data_ = reinterpret_cast<std::byte*>(real_.data());
  if (kind_ == Kind::all_to_all) result_.resize(elements());
}

bool Buffers::brings(std::size_t element) const {
  const bool is_own = element / part() == static_cast<std::size_t>(rank_);
  if (kind_ == Kind::all_gather || kind_ == Kind::gather) return is_own;
  return (kind_ != Kind::broadcast && kind_ != Kind::scatter) || rank_ == kRoot;
}

Call Buffers::call() const {
  const bool is_whole = kind_ == Kind::all_reduce || kind_ == Kind::broadcast || kind_ == Kind::reduce;
  std::byte* const own = data_ + rank_ * part() * sizeof(Element);
  Call call;
  call.kind = kind_;
  call.root = kRoot;
  call.in = kind_ == Kind::all_gather || kind_ == Kind::gather ? own : data_;
  call.out = kind_ == Kind::reduce_scatter || kind_ == Kind::scatter ? own : data_;
  if (kind_ == Kind::all_to_all)  // cannot be in place
    call.out = job_.is_checked ? reinterpret_cast<std::byte*>(result_.data()) : data_ + job_.bytes;
  call.count = is_whole ? elements() : part();
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

std::int64_t Buffers::expected(std::size_t element) const {
  switch (kind_) {
    case Kind::all_gather:
    case Kind::gather:
      return value(static_cast<int>(element / part()), element);
    case Kind::broadcast:
    case Kind::scatter:
      return value(kRoot, element);
    case Kind::all_to_all:  // from each rank its part for this one
      return value(static_cast<int>(element / part()), rank_ * part() + element % part());
    default:
      return sum_of_values(job_.ranks, element);
  }
}

std::size_t Buffers::wrong() const {
  const bool ends_with_nothing = (kind_ == Kind::reduce || kind_ == Kind::gather) && rank_ != kRoot;
  if (!job_.is_checked || ends_with_nothing) return 0;
  std::size_t begin = 0, end = elements();
  if (kind_ == Kind::reduce_scatter || kind_ == Kind::scatter) begin = rank_ * part(), end = begin + part();
  const std::vector<Element>& found = kind_ == Kind::all_to_all ? result_ : real_;
  std::size_t wrong = 0;
  for (std::size_t i = begin; i < end; ++i) wrong += found[i] != expected(i);
  return wrong;
}

}  // namespace lanecast::simulator
