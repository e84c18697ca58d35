// SPDX-License-Identifier: Apache-2.0
#include "program/carried.h"

#include <algorithm>

namespace lanecast {

CarriedChunks::CarriedChunks(const Program& program) : program_(program), messages_(program.carried.size()) {
  const auto lanes = static_cast<std::size_t>(program.slicing.lanes);
  for (const auto* queue : {&program.puts, &program.takes})
    for (const gpu::Instruction& what : *queue) {
      if (what.carried == 0) continue;
      messages_[what.carried - 1].instructions.push_back(&what);
    }
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    OneMessage& message = messages_[m];
    std::size_t full = SIZE_MAX;  // slices
    for (const gpu::Instruction* what : message.instructions)
      for (std::size_t k = 0; k < what->runs * operands_of(*what); ++k) {
        const gpu::Operand& o = program.operands[what->operands + k];
        if (o.stride != 0) full = std::min(full, static_cast<std::size_t>(o.bytes / o.stride));
      }
    message.full = static_cast<std::uint32_t>(std::min<std::size_t>(full / lanes, program.carried[m].memory.chunks));
    if (message.full != 0) message.whole = counted(message, program.carried[m].memory.lane_bytes, 0);
  }
}

CarriedChunk CarriedChunks::of(std::size_t message, std::uint32_t chunk, std::uint32_t channel) const {
  const OneMessage& one = messages_[message];
  if (chunk < one.full) return one.whole;
  const auto lanes = static_cast<std::size_t>(program_.slicing.lanes);
  const auto of_channel = static_cast<std::size_t>(program_.slicing.lanes_of_channel());
  return counted(one, program_.carried[message].memory.lane_bytes, chunk * lanes + channel * of_channel);
}

CarriedChunk CarriedChunks::counted(const OneMessage& message, std::size_t lane_bytes, std::size_t first) const {
  CarriedChunk found;
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(program_.slicing.lanes_of_channel()); ++lane) {
    std::size_t bytes = 0;
    for (const gpu::Instruction* what : message.instructions) bytes += bytes_of(program_, *what, first + lane);
    if (bytes == 0) continue;
    found.lanes |= std::uint64_t{1} << lane;
    found.bytes = lane * lane_bytes + bytes;
  }
  return found;
}

}  // namespace lanecast
