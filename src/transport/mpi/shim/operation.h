// SPDX-License-Identifier: Apache-2.0
// What a collective under way owns beside its requests: argument arrays, and scratch memory where MPI asks for it.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/mpi/shim/collective.h"

namespace lanecast::mpi {

/// What MPI may still read or write after its operation was given up; kept as long as the library is in use.
class Parked {
 public:
  void keep(std::shared_ptr<void> memory) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(memory));
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// Whether the result must go through memory of our own: MPI forbids an output inside the input, and windows of a call
/// in place would overwrite each other's input.
template <class Abi>
bool needs_scratch(const Binding<Abi>& mpi, const MpiCollective& call) {
  if (call.kind != Kind::reduce_scatter) return false;
  const std::size_t total = total_count(call);
  if (call.in_place) return !fits_int(total) && !mpi.takes_large(call);
  const std::byte* end = static_cast<const std::byte*>(call.in) + total * size_of(call.dtype);
  return std::less_equal<const void*>()(call.in, call.out) && std::less<const void*>()(call.out, end);
}

/// A collective under way: one request, or one per window.
struct PendingCollective {
  void* owner = nullptr;
  int requests_left = 0;
  std::string error;
  std::vector<std::shared_ptr<void>> arguments;  // arrays that MPI reads until the end

  void* out = nullptr;  // where the scratch goes
  std::unique_ptr<std::byte[]> scratch;
  std::size_t scratch_bytes = 0;

  /// Makes `call` write to scratch memory of `bytes` bytes.
  void redirect(MpiCollective& call, std::size_t bytes) {
    scratch_bytes = bytes;
    scratch = std::make_unique_for_overwrite<std::byte[]>(bytes);
    out = call.out;
    if (call.in_place) call.in = call.out;
    call.in_place = false;
    call.out = scratch.get();
  }

  void deliver() const {
    if (scratch != nullptr && error.empty()) std::memcpy(out, scratch.get(), scratch_bytes);
  }
};

}  // namespace lanecast::mpi
