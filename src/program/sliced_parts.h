// SPDX-License-Identifier: Apache-2.0
// How long the slices of a program's parts are, and messages of them: what both ends of a message count alike.
#pragma once

#include "plan/plan.h"
#include "program/program.h"
#include "program/slices.h"

namespace lanecast {

class SlicedParts {
 public:
  /// shape: outlives it.
  SlicedParts(const ProgramShape& shape, Slicing slicing) : shape_(shape), slicing_(slicing) {}

  std::size_t bytes_of(std::int32_t part) const { return shape_.parts[part].bytes; }
  Slice slice_of(std::int32_t part) const;
  /// Of a message in any slice.
  std::size_t most_bytes(const Pieces& message) const;
  /// The same, equal on both ends of the message.
  std::size_t most_bytes_to_both(const Pieces& message) const;

 private:
  std::size_t most_bytes(const Pieces& message, bool to_both) const;

  const ProgramShape& shape_;
  Slicing slicing_;
};

/// What a send or a receive moves. Both ends know the pieces, each in blocks of its own.
Pieces message_of(const Plan& plan, const Step& step);

}  // namespace lanecast
