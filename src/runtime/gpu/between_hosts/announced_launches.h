// SPDX-License-Identifier: Apache-2.0
// The launches of a rank's programs between hosts, in the order in which the device begins them, and as it numbers
// them: each says so by itself, since a graph replays what it has captured without a word to the host.
#pragma once

#include <cstdint>
#include <optional>

#include "device/gpu/kernels/program_arguments.h"
#include "device/gpu/memory.h"

namespace lanecast {

class AnnouncedLaunches {
 public:
  explicit AnnouncedLaunches(const std::shared_ptr<gpu::Device>& device)
      : memory_(device, (gpu::kAnnounced + kApart) * sizeof(std::uint64_t)) {}

  /// Adds what a launch has to know.
  void fill(gpu::ProgramRun& run) const {
    run.begun = memory_.device();
    run.read = memory_.device() + gpu::kAnnounced * sizeof(std::uint64_t);
  }

  /// From now on the proxy turns to a launch when the device has begun it. Before it need not wait: the host enqueues
  /// all of them, in their order.
  void follow() { followed_ = true; }
  bool is_followed() const { return followed_; }
  std::uint32_t next_number() const { return latest_ + 1; }
  /// The proxy turns to the next launch: its number. The device may have begun it, or will.
  std::uint32_t turn_to_next();
  /// Has the launch of that number begun, or a later one?
  bool has_begun(std::uint32_t launch) const;
  /// Which captured call the next launch replays, or 0 for one that the host has enqueued; none: it has not begun.
  std::optional<std::uint32_t> next() const;

 private:
  static constexpr std::size_t kApart = 16;  // words: the host writes a line of its own
  std::uint64_t* words() const { return reinterpret_cast<std::uint64_t*>(memory_.host()); }
  std::uint64_t announced(std::uint32_t launch) const {
    // Acquire: pairs with the kernel's release.
    return __atomic_load_n(words() + launch % gpu::kAnnounced, __ATOMIC_ACQUIRE);
  }

  gpu::PinnedMemory memory_;
  bool followed_ = false;
  std::uint32_t latest_ = 0;  // to which the proxy has turned
};

}  // namespace lanecast
