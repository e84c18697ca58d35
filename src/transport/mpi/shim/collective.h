// SPDX-License-Identifier: Apache-2.0
// One collective through MPI's own call: blocking or not, plain or uneven, with int counts or MPI_Count ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "transport/mpi/shim/binding.h"

namespace lanecast::mpi {

/// Elements that all members' shares make up.
inline std::size_t total_count(const MpiCollective& call) {
  return std::accumulate(call.counts.begin(), call.counts.end(), std::size_t{0});
}

inline bool are_equal(std::span<const std::size_t> counts) {
  return std::ranges::adjacent_find(counts, std::not_equal_to<>()) == counts.end();
}

/// The arrays of a call with uneven counts; MPI reads them until a non-blocking one has finished.
template <class Counted>
struct CountArrays {
  std::vector<typename Counted::Count> counts;
  std::vector<typename Counted::Offset> offsets;

  explicit CountArrays(std::span<const std::size_t> elements) : counts(elements.size()), offsets(elements.size()) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      counts[i] = static_cast<typename Counted::Count>(elements[i]);
      offsets[i] = static_cast<typename Counted::Offset>(offset);
      offset += elements[i];
    }
  }
};

template <class Request, class Blocking, class NonBlocking, class... Arguments>
int either(Request* request, Blocking blocking, NonBlocking non_blocking, Arguments... arguments) {
  return request == nullptr ? blocking(arguments...) : non_blocking(arguments..., request);
}

/// Blocks when `request` is null; else starts the call, and what is returned must live until it has finished.
template <class Abi, class Counted>
std::shared_ptr<void> start(const Binding<Abi>& mpi, const Counted& calls, const MpiCollective& call,
                            typename Abi::Request* request) {
  const auto comm = mpi.unwrap(call.comm);
  const auto type = mpi.abi.datatypes[static_cast<std::size_t>(call.dtype)];
  const auto op = mpi.op_of(call);
  const void* in = call.in_place ? mpi.abi.in_place() : call.in;
  const auto first = static_cast<typename Counted::Count>(call.counts[0]);
  const bool even = are_equal(call.counts);
  std::shared_ptr<CountArrays<Counted>> parts;
  if (!even) parts = std::make_shared<CountArrays<Counted>>(call.counts);

  int code = 0;
  switch (call.kind) {
    case Kind::all_reduce:
      code = either(request, calls.Allreduce, calls.Iallreduce, in, call.out, first, type, op, comm);
      break;
    case Kind::all_gather:
      if (even)
        code = either(request, calls.Allgather, calls.Iallgather, in, first, type, call.out, first, type, comm);
      else
        code = either(request, calls.Allgatherv, calls.Iallgatherv, in, parts->counts[mpi.rank(comm)], type, call.out,
                      parts->counts.data(), parts->offsets.data(), type, comm);
      break;
    case Kind::reduce_scatter:
      if (even)
        code = either(request, calls.Reduce_scatter_block, calls.Ireduce_scatter_block, in, call.out, first, type, op,
                      comm);
      else
        code = either(request, calls.Reduce_scatter, calls.Ireduce_scatter, in, call.out, parts->counts.data(), type,
                      op, comm);
      break;
    default:
      break;  // MpiTransport::runs() has refused it
  }
  if (code != 0) mpi.fail(code, "MPI's own collective");
  return parts;
}

}  // namespace lanecast::mpi
