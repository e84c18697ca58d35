// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements as one element, for a library whose counts are ints.
#pragma once

#include <cstddef>

#include "transport/mpi/shim/binding.h"

namespace lanecast::mpi {

/// A committed datatype of `count` elements: whole blocks, then the rest. MPI lets it be freed while operations that
/// use it are under way, so its life is that of the posting call.
template <class Abi>
class BigType {
 public:
  using Datatype = typename Abi::Datatype;

  BigType(const Binding<Abi>& mpi, Datatype element, std::size_t element_bytes, std::size_t count) : mpi_(mpi) {
    constexpr std::size_t kBlock = std::size_t{1} << 30;
    const Calls<Abi>& calls = mpi.functions.calls;
    Datatype block;
    mpi.check(calls.Type_contiguous(static_cast<int>(kBlock), element, &block), "MPI_Type_contiguous");
    const std::size_t blocks = count / kBlock;
    const int lengths[] = {static_cast<int>(blocks), static_cast<int>(count % kBlock)};
    const typename Abi::Aint offsets[] = {0, static_cast<typename Abi::Aint>(blocks * kBlock * element_bytes)};
    const Datatype types[] = {block, element};
    const int code = calls.Type_create_struct(2, lengths, offsets, types, &type_);
    calls.Type_free(&block);
    mpi.check(code, "MPI_Type_create_struct");
    mpi.check(calls.Type_commit(&type_), "MPI_Type_commit");
  }
  ~BigType() { mpi_.functions.calls.Type_free(&type_); }
  BigType(const BigType&) = delete;
  BigType& operator=(const BigType&) = delete;

  Datatype get() const { return type_; }

 private:
  const Binding<Abi>& mpi_;
  Datatype type_;
};

/// Posts `bytes` bytes by `post(calls, count, datatype)`, in whichever of the three ways the size and library ask for.
template <class Abi, class Post>
int post_bytes(const Binding<Abi>& mpi, std::size_t bytes, Post post) {
  const Functions<Abi>& functions = mpi.functions;
  if (fits_int(bytes)) return post(functions.small, static_cast<int>(bytes), mpi.abi.byte());
  if (functions.has_large()) return post(functions.large, static_cast<typename Abi::Count>(bytes), mpi.abi.byte());
  const BigType<Abi> whole(mpi, mpi.abi.byte(), 1, bytes);
  return post(functions.small, 1, whole.get());
}

/// Bytes received, from whichever call can say so.
template <class Abi>
std::size_t received_bytes(const Binding<Abi>& mpi, const typename Abi::Status& status) {
  const Functions<Abi>& functions = mpi.functions;
  typename Abi::Count bytes = 0;
  if (functions.has_large()) {
    mpi.check(functions.large.Get_count(&status, mpi.abi.byte(), &bytes), "MPI_Get_count_c");
    return static_cast<std::size_t>(bytes);
  }
  int small_bytes = 0;
  mpi.check(functions.small.Get_count(&status, mpi.abi.byte(), &small_bytes), "MPI_Get_count");
  if (small_bytes != Abi::kUndefined) return static_cast<std::size_t>(small_bytes);
  mpi.check(functions.Get_elements_x(&status, mpi.abi.byte(), &bytes), "MPI_Get_elements_x");
  return static_cast<std::size_t>(bytes);
}

}  // namespace lanecast::mpi
