// SPDX-License-Identifier: Apache-2.0
// Runs the programs of all ranks without data: does every queue come to its end?
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "plan/verify.h"
#include "program/program.h"
#include "program/slices.h"

namespace lanecast {
namespace {

/// A carried message between two hosts.
struct CarriedEnds {
  std::uint64_t put = 0, come = 0, taken = 0;  // chunks
  std::uint32_t there = 0;                     // slots of the receiver

  /// What has left its slot, which is what has come.
  void move() { come = std::max(come, std::min(put, taken + there)); }
};

struct SlotRing {
  std::size_t put = 0;      // bytes
  std::size_t arrived = 0;  // of whole messages
  std::size_t taken = 0, emptied = 0;
};

class CheckedQueues {
 public:
  CheckedQueues(const std::vector<Program>& programs, std::size_t ring_bytes)
      : programs_(programs), ring_bytes_(ring_bytes) {
    for (std::size_t r = 0; r < programs.size(); ++r)
      for (const Carried& one : programs[r].carried)
        if (!one.sends) carried_[{one.peer, static_cast<int>(r), one.ordinal}].there = one.memory.slots;
    for (const Program& program : programs)
      for (const auto* queue : {&program.puts, &program.takes})
        all_.push_back({queue, std::uint64_t{program.ticks()} * queue->size(), 0});
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t q = 0; q < all_.size(); ++q)
        while (all_[q].ended < all_[q].rounds && take(q)) moved = true;
    }
    for (std::size_t q = 0; q < all_.size(); ++q)
      if (all_[q].ended < all_[q].rounds)
        throw PlanError("as a program: rank " + std::to_string(q / 2) + " never gets past step " +
                        std::to_string(instruction(q).step) + " of its plan, in chunk " +
                        std::to_string(tick(q) - instruction(q).delay) + " of a lane");
    for (const auto& [ends, ring] : rings_)
      if (ring.put != ring.taken)
        throw PlanError("as a program: rank " + std::to_string(ends.second) + " does not take all that rank " +
                        std::to_string(ends.first) + " puts into its ring");
    for (const auto& [ends, message] : carried_)
      if (message.put != message.taken)
        throw PlanError("as a program: rank " + std::to_string(std::get<1>(ends)) + " does not take all that rank " +
                        std::to_string(std::get<0>(ends)) + " has its proxy send");
  }

 private:
  struct QueueUnderCheck {
    const std::vector<gpu::Instruction>* list;
    std::uint64_t rounds, ended;
  };

  const gpu::Instruction& instruction(std::size_t q) const {
    return (*all_[q].list)[all_[q].ended % all_[q].list->size()];
  }
  std::uint64_t tick(std::size_t q) const { return all_[q].ended / all_[q].list->size(); }

  bool has_what_it_needs(std::size_t q, const gpu::Instruction& what) const {
    const Program& program = programs_[q / 2];
    const QueueUnderCheck& other = all_[q ^ 1];
    std::uint64_t rounds = what.needs == 0 ? 0 : (tick(q) - what.needs_back) * other.list->size() + what.needs;
    const std::uint64_t chunk = tick(q) - what.delay;
    if (what.writes_scratch && chunk >= program.generations)
      rounds = std::max(rounds, (chunk - program.generations + program.delays + 1) * other.list->size());
    return other.ended >= rounds;
  }

  /// False where it waits.
  bool take(std::size_t q) {
    const gpu::Instruction& what = instruction(q);
    const Program& program = programs_[q / 2];
    const bool idle =
        tick(q) < what.delay || tick(q) - what.delay >= static_cast<std::uint64_t>(program.slicing.chunks);
    if (!idle) {
      if (!has_what_it_needs(q, what)) return false;
      if (!(what.carried != 0 ? carry(q, what) : through_ring(q, what))) return false;
    }
    ++all_[q].ended;
    return true;
  }

  bool through_ring(std::size_t q, const gpu::Instruction& what) {
    const Program& program = programs_[q / 2];
    const int rank = static_cast<int>(q / 2), peer = program.peer_of(what);
    // Of parts that are cut each by itself, some have fewer chunks.
    const std::size_t slice = program.cut_by_pairs ? (tick(q) - what.delay) * program.slicing.lanes : 0;
    const std::size_t bytes = bytes_of(program, what, slice);
    if (what.operation == gpu::Operation::put) {
      SlotRing& ring = rings_[{rank, peer}];
      if (ring.put + bytes > ring.emptied + ring_bytes_) return false;
      ring.put += bytes;
      if (what.ends) ring.arrived = ring.put;
    } else if (talks(what)) {
      SlotRing& ring = rings_[{peer, rank}];
      if (ring.taken + bytes > ring.arrived) return false;
      ring.taken += bytes;
      if (what.ends) ring.emptied = ring.taken;
    }
    return true;
  }

  bool carry(std::size_t q, const gpu::Instruction& what) {
    const Carried& here = programs_[q / 2].carried[what.carried - 1];
    const int rank = static_cast<int>(q / 2);
    const std::uint64_t chunk = tick(q) - what.delay;
    if (chunk >= here.memory.chunks) return true;
    if (what.operation == gpu::Operation::put) {
      CarriedEnds& message = carried_[{rank, here.peer, here.ordinal}];
      message.move();
      if (chunk >= message.come + here.memory.slots) return false;
      if (what.ends) message.put = chunk + 1;
    } else {
      CarriedEnds& message = carried_[{here.peer, rank, here.ordinal}];
      message.move();
      if (chunk >= message.come) return false;
      if (what.ends) message.taken = chunk + 1;
    }
    return true;
  }

  const std::vector<Program>& programs_;
  std::size_t ring_bytes_;
  std::vector<QueueUnderCheck> all_;  // of each rank: puts, takes
  std::map<std::pair<int, int>, SlotRing> rings_;
  std::map<std::tuple<int, int, std::uint32_t>, CarriedEnds> carried_;  // from, to, the how-manieth
};

void check_joined(const Program& program, std::size_t rank) {
  std::vector<bool> is_joined(program.takes.size());
  for (const gpu::Instruction& put : program.puts) {
    if (!put.joined) continue;
    if (!puts_a_sum(program, put) || !program.takes[put.needs - 1].joined || is_joined[put.needs - 1])
      throw PlanError("as a program: rank " + std::to_string(rank) + " joins step " + std::to_string(put.step) +
                      " of its plan to a sum that it does not put");
    is_joined[put.needs - 1] = true;
  }
}

}  // namespace

bool puts_a_sum(const Program& program, const gpu::Instruction& put) {
  static_assert(std::has_unique_object_representations_v<gpu::Operand>);
  if (put.operation != gpu::Operation::put || put.carried != 0 || put.needs == 0 || put.needs_back != 0) return false;
  const gpu::Instruction& sum = program.takes[put.needs - 1];
  if (!adds_up(sum) || sum.runs != put.runs || sum.delay != put.delay) return false;
  for (std::size_t r = 0; r < put.runs; ++r) {
    const gpu::Operand& target = program.operands[sum.operands + r * operands_of(sum)];
    if (std::memcmp(&target, &program.operands[put.operands + r], sizeof target) != 0) return false;
  }
  return true;
}

std::size_t bytes_of(const Program& program, const gpu::Instruction& what, std::size_t slice) {
  const std::size_t each = operands_of(what);
  std::size_t bytes = 0;
  for (std::size_t r = 0; r < what.runs; ++r) {
    const gpu::Operand& o = program.operands[what.operands + r * each];
    const std::size_t begin = slice * o.stride;
    if (begin >= o.bytes) continue;
    const std::size_t length = std::min(o.bytes - begin, o.stride);
    const auto at = [&](gpu::u32 numerator) { return place(Fraction::of(numerator, o.den), length); };
    bytes += at(o.to) - at(o.from);
  }
  return bytes;
}

void check_queues(const std::vector<Program>& programs, std::size_t ring_bytes) {
  CheckedQueues(programs, ring_bytes).run();
  for (std::size_t r = 0; r < programs.size(); ++r) check_joined(programs[r], r);
}

}  // namespace lanecast
