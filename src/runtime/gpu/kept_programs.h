// SPDX-License-Identifier: Apache-2.0
// Programs that are enqueued on a GPU: they stay on it until they have run, whoever lets go of them before.
#pragma once

#include <memory>
#include <set>

#include "runtime/gpu/bound_program.h"
#include "runtime/gpu/known_calls.h"
#include "runtime/gpu/order_of_calls.h"

namespace lanecast {

class KeptPrograms {
 public:
  /// calls: those that the programs are enqueued among. All outlive it.
  KeptPrograms(const gpu::Device& device, const OrderOfCalls& calls, KnownCalls& known)
      : device_(device), calls_(calls), known_(known) {}

  /// The device is current. captured: by a graph, which may be replayed for as long as this lives.
  void keep(const std::shared_ptr<const BoundProgram>& program, bool captured);
  /// Is it kept already, not for a graph?
  bool keeps(const std::shared_ptr<const BoundProgram>& program) const { return running_.contains(program); }

 private:
  static constexpr std::size_t kMost = 256;  // perhaps running

  const gpu::Device& device_;
  const OrderOfCalls& calls_;
  KnownCalls& known_;
  std::set<std::shared_ptr<const BoundProgram>> running_;  // perhaps
  std::set<std::shared_ptr<const BoundProgram>> captured_;
};

}  // namespace lanecast
