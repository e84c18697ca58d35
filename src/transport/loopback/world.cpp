// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/world.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/running_time.h"
#include "transport/loopback/channel.h"

namespace lanecast {

namespace {
constexpr int kMostRanks = 2048;  // each keeps queues for every other: 6 GB among so many
}

LoopbackWorld::LoopbackWorld(int size, std::chrono::milliseconds deadline)
    : size_(size), deadline_(deadline), arrived_(size) {
  if (size < 1) throw UsageError("a loopback world needs at least one rank, not " + std::to_string(size));
  if (size > kMostRanks)
    throw UsageError("a loopback world takes at most " + std::to_string(kMostRanks) + " ranks, not " +
                     std::to_string(size));
}

Bootstrap LoopbackWorld::bootstrap(int rank) {
  if (rank < 0 || rank >= size_)
    throw UsageError("rank " + std::to_string(rank) + " is outside a loopback world of " + std::to_string(size_));
  return {rank, size_, [world = shared_from_this(), rank](const void* in, void* out, std::size_t bytes) {
            world->all_gather(rank, in, out, bytes);
          }};
}

std::shared_ptr<LoopbackChannel> LoopbackWorld::channel(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  std::erase_if(channels_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<LoopbackChannel> channel = channels_[id].lock();
  if (!channel) channels_[id] = channel = std::make_shared<LoopbackChannel>(size_);
  return channel;
}

void LoopbackWorld::break_up(const std::string& reason) {
  if (broken_.empty()) broken_ = reason;
  round_over_.notify_all();
  throw TransportError(broken_);
}

void LoopbackWorld::all_gather(int rank, const void* in, void* out, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (!broken_.empty()) break_up(broken_);
  if (arrived_[rank]) break_up("rank " + std::to_string(rank) + " entered one bootstrap round from two threads");
  if (arrivals_ == 0) gathering_.assign(bytes * size_, std::byte{});
  if (gathering_.size() != bytes * size_)
    break_up("rank " + std::to_string(rank) + " brought " + std::to_string(bytes) + " bytes to the bootstrap, others " +
             std::to_string(gathering_.size() / size_) + ": the ranks have made different calls");
  if (bytes > 0) std::memcpy(gathering_.data() + rank * bytes, in, bytes);
  arrived_[rank] = true;

  const std::uint64_t mine = round_;
  if (++arrivals_ == size_) {
    gathered_ = std::make_shared<const std::vector<std::byte>>(std::move(gathering_));
    arrived_.assign(size_, false);
    arrivals_ = 0;
    ++round_;
    round_over_.notify_all();
  } else if (!wait_while_running(round_over_, lock, deadline_, [&] { return round_ != mine || !broken_.empty(); })) {
    std::string missing;
    for (int r = 0; r < size_; ++r)
      if (!arrived_[r]) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
    break_up("rank " + std::to_string(rank) + " waited " + std::to_string(deadline_.count()) +
             " ms in the bootstrap for rank(s) " + missing + "; see whether they have started");
  }
  if (round_ == mine) break_up(broken_);
  // A next round cannot end before this rank joins it, so gathered_ is still that of this round.
  const auto result = gathered_;
  lock.unlock();
  if (bytes > 0) std::memcpy(out, result->data(), result->size());
}

}  // namespace lanecast
