// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/network_memory.h"

#include <algorithm>
#include <span>

namespace lanecast {

NetworkRoom room_for(const Program& program) {
  const std::size_t messages = program.carried.size(), lanes = static_cast<std::size_t>(program.slicing.lanes);
  const std::size_t told = messages * static_cast<std::size_t>(program.slicing.channels);
  constexpr std::size_t kWord = NetworkMemory::kWord;
  return {program.slot_bytes[0], program.slot_bytes[1], NetworkMemory::in_lines(told) * kWord, messages * lanes * kWord,
          std::max<std::size_t>(told, 1) * kWord};
}

NetworkMemory::NetworkMemory(const std::shared_ptr<gpu::Device>& device, const WhereMessagesLie& where,
                             const NetworkRoom& room)
    : room_(room),
      words_(device, kToldAt * kWord + room.told + room.says),
      heard_(device, room.heard),
      on_host_(device, std::max<std::size_t>(room.on_host, 1)) {
  if (room.on_device == 0) return;
  on_device_ = std::make_unique<gpu::DeviceMemory>(device, room.on_device);
  registered_.emplace_back(where, *on_device_);
}

void NetworkMemory::fill(gpu::ProgramRun& run) const {
  run.slots[0] = on_device_ ? on_device_->address() : 0;
  run.slots[1] = on_host_.device();
  run.heard = heard_.address();
  run.ended = words_.device() + kEndedAt * kWord;
  run.told = words_.device() + kToldAt * kWord;
  run.says = run.told + room_.told;
}

bool NetworkMemory::has_ended(std::uint32_t launch, int lanes) const {
  return std::ranges::all_of(std::span(words() + kEndedAt, static_cast<std::size_t>(lanes)),
                             [launch](const std::uint64_t& word) {
                               // Relaxed: nothing is read because of it.
                               const std::uint64_t now = __atomic_load_n(&word, __ATOMIC_RELAXED) >> 32;
                               return static_cast<std::int32_t>(static_cast<std::uint32_t>(now) - launch) >= 0;
                             });
}

}  // namespace lanecast
