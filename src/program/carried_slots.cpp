// SPDX-License-Identifier: Apache-2.0
#include "program/carried_slots.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {
namespace {

// Chunks of a message that lie in slots at a time: one is put or taken while others are on their way.
constexpr std::uint32_t kMostSlots = 8, kLeastSlots = 2;
constexpr std::size_t kMostSlotBytes = std::size_t{64} << 20;  // of all messages of a program that take more than that

}  // namespace

Carried carried_message(const Plan& plan, std::uint32_t step, const ProgramShape& shape, Slicing slicing) {
  if (!shape.between_hosts) throw InternalError("program: a message is carried among ranks of one host");
  const BetweenHostsShape& how = *shape.between_hosts;
  const SlicedParts parts(shape, slicing);
  const Step& what = plan.steps[step];
  const Pieces message = message_of(plan, what);
  Carried carried{.step = step, .peer = what.peer, .sends = what.kind == StepKind::send, .ordinal = what.ordinal};
  carried.memory.lane_bytes = in_lines(parts.most_bytes(message));
  carried.chunks = parts.chunks_of(message);
  const auto lanes = static_cast<std::size_t>(slicing.lanes_of_channel());
  carried.memory.on_host = carried.memory.lane_bytes * lanes >= how.least_on_gpu[what.peer] ? 0 : 1;
  return carried;
}

void place_carried(Program& program) {
  const auto lanes = static_cast<std::size_t>(program.slicing.lanes);
  const auto chunks = static_cast<std::uint32_t>(program.slicing.chunks);
  std::size_t bytes = 0;  // with one slot each
  for (const Carried& carried : program.carried) bytes += carried.memory.lane_bytes * lanes;
  std::uint32_t slots = kMostSlots;
  while (slots > kLeastSlots && bytes * slots > kMostSlotBytes) --slots;
  for (Carried& carried : program.carried) {
    carried.memory.slots = std::min(slots, chunks);
    std::size_t& end = program.slot_bytes[carried.memory.on_host];
    carried.memory.place = end;
    end += carried.memory.lane_bytes * lanes * carried.memory.slots;
  }
}

}  // namespace lanecast
