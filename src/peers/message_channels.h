// SPDX-License-Identifier: Apache-2.0
// What the ranks of a host keep in each other's memory for messages between two of them: slots, words beside them, and
// how far each channel is.
#pragma once

#include <memory>
#include <vector>

#include "device/gpu/copied_memory.h"
#include "device/gpu/kernels/message_arguments.h"
#include "peers/message_kernels.h"
#include "peers/shared_memory.h"

namespace lanecast::peers {

class MessageChannels {
 public:
  /// Collective over the members, who may be one.
  MessageChannels(const std::shared_ptr<gpu::Device>& device, const Bootstrap& members);

  /// To another member, as this rank's kernels reach it.
  MessageRoute route_to(int member) const;

 private:
  static std::size_t bytes_of(gpu::u32 members);
  std::vector<gpu::MessageEnds> ends() const;

  SharedMemory memory_;
  std::unique_ptr<gpu::CopiedMemory> ends_;
};

}  // namespace lanecast::peers
