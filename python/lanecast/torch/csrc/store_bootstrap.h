// SPDX-License-Identifier: Apache-2.0
// How ranks that share nothing but torch's store come together.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace lanecast_torch {

/// All-gathers over a store, each with keys of its own. A rank deletes its key when the next round shows that all have
/// read it, so nothing is left that a later group with the same store could take for its own. Signals are heard.
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
  class Rounds;

  void gather(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes);

  const std::shared_ptr<Rounds> rounds_;
  std::string failure_;
};

}  // namespace lanecast_torch
