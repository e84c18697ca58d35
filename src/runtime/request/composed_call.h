// SPDX-License-Identifier: Apache-2.0
// A composition with its buffers and its shape, as the caller describes it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "compose/machine.h"
#include "plan/composition.h"

namespace lanecast {

class BoundProgram;
class LaunchCounts;

struct ComposedCall {
  std::shared_ptr<const Composition> composition;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;                // elements of each part
  std::span<const std::size_t> counts;  // of each part, where they differ; equal on every rank
  DType dtype{};
  Shaping shaping;
  std::string transports;      // one, or one per level of the hierarchy, outermost first; empty: the communicator's
  int chunks = 0;              // pipeline depth; 0: the communicator's, or chosen by size
  std::optional<bool> proven;  // verify() the plans of all ranks first; none: where there are at most kProvenRanks
};

/// One that GpuCalls::compile() has lowered for a GPU's memory, with the buffers of a call.
struct ComposedOnGpu {
  std::shared_ptr<const BoundProgram> program;
  const void* in = nullptr;
  void* out = nullptr;
  std::shared_ptr<const LaunchCounts> counts = nullptr;  // of a program whose counts come with the launch
};

/// The plans of so many ranks are proven on each in a few milliseconds.
inline constexpr int kProvenRanks = 32;

}  // namespace lanecast
