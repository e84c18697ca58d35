// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process: their bootstrap, and the mailboxes through which LoopbackTransport moves
// messages. For tests, and for programs that want every rank in one debugger.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bootstrap.h"

namespace lanecast {

class LoopbackChannel;

class LoopbackWorld : public std::enable_shared_from_this<LoopbackWorld> {
 public:
  /// `deadline`: how long a rank waits in the bootstrap for the others before it throws TransportError.
  explicit LoopbackWorld(int size, std::chrono::milliseconds deadline = std::chrono::seconds(30));

  int size() const { return size_; }

  /// The bootstrap of `rank`; it keeps the world alive.
  Bootstrap bootstrap(int rank);

  /// Channels never see each other's messages: one for each communicator, under an id that its members agree on.
  /// Whoever comes first creates it; it goes with its last user.
  std::shared_ptr<LoopbackChannel> channel(std::uint64_t id);

 private:
  void all_gather(int rank, const void* in, void* out, std::size_t bytes);
  [[noreturn]] void break_up(const std::string& reason);  // with mutex_ held

  const int size_;
  const std::chrono::milliseconds deadline_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable round_over_;
  std::uint64_t round_ = 0;
  std::vector<bool> arrived_;
  int arrivals_ = 0;
  std::vector<std::byte> gathering_;                        // the round under way
  std::shared_ptr<const std::vector<std::byte>> gathered_;  // the last one; late readers hold on to theirs
  std::string broken_;                                      // why no further round can succeed
  std::map<std::uint64_t, std::weak_ptr<LoopbackChannel>> channels_;
};

}  // namespace lanecast
