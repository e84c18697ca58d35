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
  carried.memory.chunks = static_cast<gpu::u32>(slicing.chunks);
  carried.memory.least_on_gpu = how.least_on_gpu[what.peer];
  const auto lanes = static_cast<std::size_t>(slicing.lanes_of_channel());
  carried.memory.on_host = carried.memory.lane_bytes * lanes >= carried.memory.least_on_gpu ? 0 : 1;
  return carried;
}

void place_carried(Program& program) {
  const auto lanes = static_cast<std::size_t>(program.slicing.lanes);
  const auto chunks = static_cast<std::uint32_t>(program.slicing.chunks);
  std::size_t bytes = 0;  // with one slot each
  for (const Carried& carried : program.carried) bytes += carried.memory.lane_bytes * lanes;
  std::uint32_t slots = kMostSlots;
  while (slots > kLeastSlots && bytes * slots > kMostSlotBytes) --slots;
  const auto of_channel = static_cast<std::size_t>(program.slicing.lanes_of_channel());
  for (Carried& carried : program.carried) {
    gpu::CarriedMessage& memory = carried.memory;
    memory.slots = std::min(slots, chunks);
    const auto place = [&](std::size_t lane_bytes, gpu::u32 on_host) {
      memory.places[on_host] = program.slot_bytes[on_host];
      program.slot_bytes[on_host] += lane_bytes * lanes * memory.slots;
    };
    place(memory.lane_bytes, memory.on_host);
    memory.place = memory.places[memory.on_host];
    // A launch whose counts are smaller has its shorter messages on the host.
    if (!program.counted || memory.on_host != 0) continue;
    const std::size_t of_all = in_lines(memory.least_on_gpu / of_channel + 1);
    const std::size_t most = program.counted->by_pairs ? std::max<std::size_t>(of_all, gpu::kLeastSlice) : of_all;
    place(std::min<std::size_t>(memory.lane_bytes, most), 1);
  }
}

}  // namespace lanecast
