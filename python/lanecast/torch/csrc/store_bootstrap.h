// SPDX-License-Identifier: Apache-2.0
// How ranks that share nothing but torch's store come together.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace lanecast_torch {

/// All-gathers over a store, each with keys of its own. A rank deletes its key when the next round shows that all have
/// read it, so nothing is left that a later group with the same store could take for its own.
class StoreBootstrap {
 public:
  StoreBootstrap(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::chrono::milliseconds timeout);

  /// A lanecastAllGatherFn with the address of a StoreBootstrap.
  static int all_gather(const void* in, void* out, std::size_t bytes, void* self) noexcept;

  /// Returns when all ranks have come; the last one out clears what the rounds have left.
  void leave();

  /// Why all_gather has failed, if it has.
  const std::string& failure() const { return failure_; }

 private:
  std::string key(std::uint64_t round, int rank) const;
  void gather(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes);
  std::vector<std::uint8_t> value_of(int peer);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::uint64_t round_ = 0;
  std::string failure_;
};

}  // namespace lanecast_torch
