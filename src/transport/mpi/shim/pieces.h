// SPDX-License-Identifier: Apache-2.0
// Collectives of 2^31 elements and more on a library whose counts are ints: cut into several operations.
//
// An all-gather moves its shares as single elements of a big datatype. MPI's reductions take predefined types only, so
// an all-reduce is cut into ranges, and a reduce-scatter into one reduction per member (and range).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "transport/mpi/shim/big_type.h"
#include "transport/mpi/shim/binding.h"

namespace lanecast::mpi {

/// Starts the operations and hands each request to `add`. Not for an in-place reduce-scatter.
template <class Abi, class Add>
class Pieces {
 public:
  Pieces(const Binding<Abi>& mpi, const MpiCollective& call, Add add)
      : mpi_(mpi), call_(call), add_(add), comm_(mpi.unwrap(call.comm)), element_bytes_(size_of(call.dtype)) {}

  void start() {
    switch (call_.kind) {
      case GroupKind::all_gather:
        return all_gather();
      case GroupKind::all_reduce:
        return all_reduce();
      case GroupKind::reduce_scatter:
        return reduce_scatter();
    }
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 30;  // elements

  void all_gather() {
    std::byte* share = static_cast<std::byte*>(call_.out);
    const int rank = mpi_.rank(comm_);
    for (int root = 0; root < static_cast<int>(call_.counts.size()); ++root) {
      const std::size_t count = call_.counts[root];
      if (count == 0) continue;
      if (root == rank && !call_.in_place) std::memcpy(share, call_.in, count * element_bytes_);
      const BigType<Abi> type(mpi_, datatype(), element_bytes_, count);
      add(mpi_.functions.calls.Ibcast(share, 1, type.get(), root, comm_, &request_), "MPI_Ibcast");
      share += count * element_bytes_;
    }
  }

  void all_reduce() {
    for (std::size_t begin = 0; begin < call_.counts[0]; begin += kPiece) {
      const int count = static_cast<int>(std::min(kPiece, call_.counts[0] - begin));
      const void* in = call_.in_place ? mpi_.abi.in_place() : in_at(begin);
      add(mpi_.functions.small.Iallreduce(in, out_at(begin), count, datatype(), op(), comm_, &request_),
          "MPI_Iallreduce");
    }
  }

  void reduce_scatter() {
    std::size_t share = 0;
    for (int root = 0; root < static_cast<int>(call_.counts.size()); ++root) {
      for (std::size_t begin = 0; begin < call_.counts[root]; begin += kPiece) {
        const int count = static_cast<int>(std::min(kPiece, call_.counts[root] - begin));
        add(mpi_.functions.calls.Ireduce(in_at(share + begin), out_at(begin), count, datatype(), op(), root, comm_,
                                         &request_),
            "MPI_Ireduce");
      }
      share += call_.counts[root];
    }
  }

  void add(int code, const char* name) {
    mpi_.check(code, name);
    add_(request_);
  }
  const std::byte* in_at(std::size_t element) const {
    return static_cast<const std::byte*>(call_.in) + element * element_bytes_;
  }
  std::byte* out_at(std::size_t element) const { return static_cast<std::byte*>(call_.out) + element * element_bytes_; }
  typename Abi::Datatype datatype() const { return mpi_.abi.datatypes[static_cast<std::size_t>(call_.dtype)]; }
  typename Abi::Op op() const { return mpi_.abi.ops[static_cast<std::size_t>(call_.op)]; }

  const Binding<Abi>& mpi_;
  const MpiCollective& call_;
  Add add_;
  typename Abi::Comm comm_;
  std::size_t element_bytes_;
  typename Abi::Request request_;
};

}  // namespace lanecast::mpi
