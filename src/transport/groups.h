// SPDX-License-Identifier: Apache-2.0
// Whole collectives on subgroups, run by a transport's own library, where it has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/kind.h"

namespace lanecast {

/// in_and_out[i] += in[i], in words that MPI's libraries know: the last argument is nothing to us.
using GroupAdd = void(void* in, void* in_and_out, int* elements, void* datatype);

/// One collective on a subgroup, run by the transport's own library. Member k has counts[k] elements: its share of an
/// all-gather's or gather's output, or of a reduce-scatter's or scatter's input; where ranks know their own counts
/// only, the other members' are 0 on all but the root. An all-reduce, broadcast or reduce has one count in all. An
/// all-to-all has twice as many counts as members: what this rank sends to each, then what it receives from each. A
/// broadcast's root has `in` only, and among the peers of a host also an `out` that its own part is copied to; the
/// others have `out` only; a reduce's or gather's others have no `out`, a scatter's no
/// `in`.
struct GroupCall {
  int group = -1;  // from Groups::open
  Kind kind{};
  DType dtype{};
  ReduceOp op{};                  // avg adds; the executor divides
  GroupAdd* add = nullptr;        // by this, where the library's own sum would end at the type's range
  const std::byte* in = nullptr;  // equal to its place in `out` for an in-place call
  std::byte* out = nullptr;
  std::span<const std::size_t> counts;  // elements
  int root = 0;                         // member, of the kinds that have one
  bool own_counts = false;              // other members may know other counts, or none
};

class Groups {
 public:
  virtual ~Groups() = default;
  /// Has the library this collective?
  virtual bool runs(Kind kind, DType dtype, ReduceOp op) const = 0;
  /// Collective over `ranks` (communicator ranks, this one among them). Nothing while the others are still to come: to
  /// be called again; blocks where the library leaves no choice. Members post the calls on one group in one order;
  /// groups of the same ranks with different ordinals do not meet, so their calls may be posted in any order.
  virtual std::optional<int> open(std::span<const int> ranks, std::uint32_t ordinal) = 0;
  /// Would open() return at once? The same for all of `ranks`.
  virtual bool has(std::span<const int> ranks, std::uint32_t ordinal) const = 0;
  /// The executor owns the call and keeps it until it is reported done.
  virtual void post(GroupCall& call) = 0;
  /// Moves what can be moved without blocking and appends what has finished.
  virtual void progress(std::vector<GroupCall*>& done) = 0;
};

}  // namespace lanecast
