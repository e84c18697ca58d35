// SPDX-License-Identifier: Apache-2.0
// Memory of this rank's GPU that its peers have mapped: it must not be freed before they have let go of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/process.h"
#include "device/gpu/memory.h"
#include "device/gpu/stream.h"

namespace lanecast::peers {

/// How long one who frees memory waits for peers to let go of it.
inline constexpr auto kGoodbye = std::chrono::seconds(2);

class LentMemory {
 public:
  /// Zeroed. Behind the bytes, a multiple of 8, lies a word for each member, which it sets when it has unmapped them.
  LentMemory(const std::shared_ptr<gpu::Device>& device, std::size_t bytes, int rank, int members)
      : device_(device),
        bytes_(bytes),
        rank_(rank),
        own_(device, bytes + members * sizeof(Word)),
        handle_(own_.ipc_handle()) {}

  gpu::Address address() const { return own_.address(); }
  std::size_t bytes() const { return bytes_; }
  const gpu::IpcHandle& handle() const { return handle_; }
  /// By member: who maps it from now on; none for a process that this one cannot see.
  void lend(std::vector<std::optional<Process>> members) { members_ = std::move(members); }

  /// To a member, whose memory has been lent to this one, which will not read or write it again.
  void give_back(gpu::Address theirs);
  /// All members have given it back, or have ended.
  bool is_back();

  /// For free_what_is_back(), which whoever lends more calls: a peer that has stopped may go on, and its kernels write
  /// there. What is never back stays until this process ends.
  static void leave(std::unique_ptr<LentMemory> memory);
  static void free_what_is_back();

 private:
  using Word = std::uint64_t;

  /// Returns when it is done, and waits for nobody else's work.
  void copy(gpu::Address to, gpu::Address from, std::size_t bytes);

  std::shared_ptr<gpu::Device> device_;
  std::size_t bytes_;
  int rank_;
  gpu::DeviceMemory own_;
  gpu::IpcHandle handle_;
  std::optional<gpu::OwnedStream> notes_;  // from the first copy on
  std::vector<std::optional<Process>> members_;
};

}  // namespace lanecast::peers
