// SPDX-License-Identifier: Apache-2.0
// The counts of a launch between hosts: as the kernel reads them, and as the proxy does.
#pragma once

#include <cstdint>
#include <vector>

#include "device/gpu/memory.h"
#include "runtime/gpu/bound_program.h"
#include "runtime/request/call.h"

namespace lanecast {

class LaunchCounts {
 public:
  /// Calls the driver.
  LaunchCounts(const std::shared_ptr<gpu::Device>& device, std::size_t rows)
      : rows_(rows), lists_(device, rows * sizeof(std::uint64_t)) {}

  std::size_t rows() const { return rows_; }
  /// Of a call of this program, of no more rows. No launch with these is under way.
  void set(const BoundProgram& program, const Call& call);
  /// Adds what the launch has to know.
  void fill(gpu::ProgramRun& run) const;

  /// Do they lie in the GPU's memory? Then nobody here knows them before the launch has begun.
  bool on_device() const { return on_device_.has_value(); }
  /// Of each row, in elements.
  std::vector<std::size_t> by_row() const;

  /// What the call says of itself; of counts that each rank knows for itself the program says it.
  const Signature& signature() const { return signature_; }
  const CallRecord& record() const { return record_; }

 private:
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(lists_.host()); }

  std::size_t rows_;
  gpu::PinnedMemory lists_;  // of all rows; or what the kernel tells of those that lie on the GPU
  std::size_t used_ = 0, inputs_ = 0;
  std::optional<CountsOnDevice> on_device_;
  Signature signature_;
  CallRecord record_;
};

}  // namespace lanecast
