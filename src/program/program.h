// SPDX-License-Identifier: Apache-2.0
// A program: what a rank's plan becomes for its GPU, bound to a shape. Data, as the plan is.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/gpu/kernels/program_arguments.h"
#include "plan/plan.h"

namespace lanecast {

/// Where a part lies in a rank's buffers, in bytes; of a buffer that does not have it, anything.
struct PartBytes {
  std::size_t in = 0, out = 0;
  std::size_t bytes = 0;
};

/// Into how many slices each part is cut, equal on all ranks: lanes work beside each other, and each takes its chunks
/// one after the other. What goes to other hosts is carried for some lanes together, those of a channel.
struct Slicing {
  int lanes = 1;
  int chunks = 1;    // of each lane
  int channels = 1;  // of as many lanes each
  int lanes_of_channel() const { return lanes / channels; }
  std::size_t slices() const { return static_cast<std::size_t>(lanes) * static_cast<std::size_t>(chunks); }
  friend bool operator==(const Slicing&, const Slicing&) = default;
};

/// A message to or from a rank of another host, which a proxy carries: one of each chunk and channel.
struct Carried {
  gpu::CarriedMessage memory{};
  std::uint32_t step = 0;  // of the plan
  int peer = -1;           // rank
  bool sends = false;
  std::uint32_t ordinal = 0;  // as Step::ordinal
};

/// Of a program whose counts come with the launch: the parts that its table has rows of.
struct CountedParts {
  std::vector<std::int32_t> rows;         // parts of the input, those of the output, others
  std::uint32_t inputs = 0, outputs = 0;  // rows
  std::uint32_t own_in = 0, own_out = 0;  // rows of what this rank sends itself, from 1; 0: nothing
  bool by_pairs = false;                  // a part's two ranks alone know how long it is
};

struct Program {
  Slicing slicing;
  std::vector<gpu::Instruction> puts, takes;  // the two queues, each in its order
  std::vector<gpu::Operand> operands;
  std::vector<Carried> carried;
  std::optional<CountedParts> counted;  // none: it has counts of its own
  bool cut_by_pairs = false;            // of a launch: each part is cut by itself, as with_counts() does
  std::vector<int> neighbours;          // ranks of this host, as instructions count them; empty: all ranks
  std::size_t slot_bytes[2]{};          // of carried messages: in the GPU's memory, in the host's
  std::uint32_t delays = 0;             // the longest
  std::uint32_t generations = 1;        // of scratch memory: chunks of a lane that may use it at once
  std::size_t scratch_bytes = 0;        // of one generation of one lane
  std::size_t longest_message = 0;      // through a ring: bytes of a slice, at most

  /// Of a program whose counts come with the launch.
  const CountedParts& counted_parts() const {
    if (!counted) throw InternalError("counts were brought to a program that has its own");
    return *counted;
  }
  /// Of one lane, in a launch.
  std::size_t table_bytes() const {
    return counted ? counted->rows.size() * sizeof(gpu::PartRow) + carried.size() * sizeof(gpu::CarriedMessage) : 0;
  }
  std::uint32_t ticks() const { return static_cast<std::uint32_t>(slicing.chunks) + delays; }
  /// Bytes of its scratch memory in all.
  std::size_t all_scratch_bytes() const {
    return scratch_bytes * generations * static_cast<std::size_t>(slicing.lanes);
  }
  /// The rank that an instruction speaks to.
  int peer_of(const gpu::Instruction& what) const {
    if (what.carried != 0) return carried[what.carried - 1].peer;
    return neighbours.empty() ? what.peer : neighbours[what.peer];
  }
};

/// What a step that reduces adds by.
struct StepSum {
  std::uint32_t op = 0;  // ReduceOp
  std::uint32_t overrange = 0;
  double divisor = 1;
};

/// How ranks of several hosts speak to each other.
struct BetweenHostsShape {
  std::vector<int> neighbours;            // ranks of this host
  std::vector<std::size_t> least_on_gpu;  // by rank: bytes of a message with it that lies on the GPU
  std::size_t longest_in_ring = 0;        // bytes: a longer message goes through rings in several
};

/// Who knows the counts that come with a launch.
enum class CountsKnown { before, to_all, by_pairs };

/// What a plan is bound to.
struct ProgramShape {
  std::vector<PartBytes> parts;  // where counts come with the launch: as long as they may be
  std::function<StepSum(const Step&)> sum_of;
  CountsKnown counts = CountsKnown::before;
  std::optional<BetweenHostsShape> between_hosts;  // none: all ranks are on one
  std::vector<std::int32_t> stages;                // within one, of all ranks: stages_of(); see delays.h
};

std::string_view name_of(gpu::Operation operation);
/// None where no operation has this name.
std::optional<gpu::Operation> operation_from(std::string_view name);

/// Does it put into a peer's ring, or take from one's own?
inline bool talks(const gpu::Instruction& what) { return what.operation <= gpu::Operation::take_reduce; }

/// What it takes, or sources beside each other.
inline bool adds_up(const gpu::Instruction& what) {
  return what.operation == gpu::Operation::take_reduce || what.operation == gpu::Operation::reduce;
}

/// Does a put move what an instruction that adds up has written, run by run, and need that one last?
bool puts_a_sum(const Program& program, const gpu::Instruction& put);

/// Of each of its runs: its target, where that is no ring, and its sources, where those are none.
inline std::size_t operands_of(const gpu::Instruction& what) {
  const bool from_ring = what.operation == gpu::Operation::take || what.operation == gpu::Operation::take_reduce;
  return (what.operation == gpu::Operation::put ? 0 : 1) + what.sources - (from_ring ? 1 : 0);
}

/// Bytes of an instruction in a slice of every part, the k-th; the first one is the longest.
std::size_t bytes_of(const Program& program, const gpu::Instruction& what, std::size_t slice = 0);

/// Made from this rank's plan alone. Within a chunk copies that need nothing come first, and all other steps keep the
/// order of the plan's list; those of a later stage work chunks behind those of an earlier one, so that all stages are
/// at work at a time: see delays.h. Throws UsageError for plans with group steps, and for a step of more sources than a
/// kernel takes.
Program program_of(const Plan& plan, const ProgramShape& shape, Slicing slicing);

/// The program of a launch with these counts, in bytes, by row. They are no more than those that it was made for.
Program with_counts(const Program& program, const std::vector<std::size_t>& bytes);

/// The longest message of one slice of so many, in bytes; of this rank's plan.
std::size_t longest_message(const Plan& plan, const std::vector<PartBytes>& parts, std::size_t slices);

/// Throws PlanError where a put is joined to no sum that it puts, and unless the programs of all ranks come to their
/// ends, each by its two queues, through rings that hold so many bytes, whatever the order in which queues get on: a
/// put waits for room in the ring, a take for what it takes, and either for what it needs of its rank's other queue. A
/// carried message leaves its slot when the receiver has one for it.
void check_queues(const std::vector<Program>& programs, std::size_t ring_bytes);

/// A line for each instruction: p0, p1, … are those of the queue that puts, t0, t1, … those of the other one.
/// plan: the one that the program was made from.
std::string describe(const Program& program, const Plan& plan);

}  // namespace lanecast
