// SPDX-License-Identifier: Apache-2.0
// What a carried message has of each chunk and channel: the same on both of its ends, so a proxy asks nobody.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace lanecast {

struct CarriedChunk {
  std::size_t bytes = 0;    // from the first lane's share to the end of the last one; 0: there is no message
  std::uint64_t lanes = 0;  // bit k: the channel's k-th lane has a share
};

class CarriedChunks {
 public:
  explicit CarriedChunks(const Program& program);

  CarriedChunk of(std::size_t message, std::uint32_t chunk, std::uint32_t channel) const;

 private:
  struct OneMessage {
    std::vector<const gpu::Instruction*> instructions;
    std::uint32_t full = 0;  // chunks from the first on in which all slices of all parts are whole
    CarriedChunk whole;      // each of those
  };
  /// first: slice of the channel's first lane.
  CarriedChunk counted(const OneMessage& message, std::size_t lane_bytes, std::size_t first) const;

  const Program& program_;
  std::vector<OneMessage> messages_;
};

}  // namespace lanecast
