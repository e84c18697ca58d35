// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/host.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "transport/shm/cma.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kBoardBytes = 12288;  // whole pages, so that the lanes start on one
static_assert(sizeof(Boards) <= kBoardBytes);

/// What a rank tells the others of its host.
struct Greeting {
  int pid;
  int fd;       // of the memory of all, on the first rank
  FileId file;  // likewise
  const Host* host;
  ShmLayout layout;
};

/// Where things lie in the memory of a host, by the places of the ranks.
struct HostOffsets {
  const ShmLayout& layout;

  std::size_t lane_bytes() const { return kControlBytes + layout.ring_bytes; }
  std::size_t boards(std::size_t rank) const { return rank * kBoardBytes; }
  std::size_t lane(std::size_t from, std::size_t to) const {
    const std::size_t others = layout.ranks - 1, lane = from * others + (to < from ? to : to - 1);
    return boards(layout.ranks) + lane * lane_bytes();
  }
  std::size_t outbox(std::size_t rank) const {
    return boards(layout.ranks) + layout.ranks * (layout.ranks - 1) * lane_bytes() + rank * outbox_bytes(layout);
  }
  std::size_t bytes() const { return outbox(layout.ranks); }
};

/// Gathers what `step` returns. If it throws on one rank, that rank's error is thrown on every rank: nobody waits for
/// a rank that has failed.
std::vector<std::string> all_gather_or_throw(const Bootstrap& bootstrap, const std::function<std::string()>& step) {
  std::string mine;
  try {
    mine = "+" + step();
  } catch (const std::exception& error) {
    mine = std::string("!") + error.what();
  }
  std::vector<std::string> all = bootstrap.all_gather_strings(mine);
  for (int rank = 0; rank < bootstrap.size; ++rank) {
    if (all[rank].front() == '!')
      throw TransportError("shared memory cannot be set up on rank " + std::to_string(rank) + ": " +
                           all[rank].substr(1));
    all[rank].erase(0, 1);
  }
  return all;
}

Greeting greeting_of(int rank, const std::string& text, const ShmLayout& layout) {
  Greeting greeting{};
  if (text.size() == sizeof greeting) std::memcpy(&greeting, text.data(), sizeof greeting);
  if (greeting.layout != layout)
    throw UsageError("rank " + std::to_string(rank) + " has other ShmOptions or another list of this host's ranks");
  return greeting;
}

ShmLane lane_at(const Mapping& memory, std::size_t offset, const ShmLayout& layout) {
  std::byte* const begin = memory.data() + offset;
  return {reinterpret_cast<LaneControl*>(begin), begin + kControlBytes, layout.ring_bytes, &memory};
}

/// What was asked for, or `off` where the system does not let us read the peer.
SingleCopy single_copy_from(const Greeting& peer, SingleCopy choice) {
  if (choice == SingleCopy::off) return choice;
  try {
    // Any memory of the peer's will do: it waits meanwhile, in the constructor of its Host.
    std::byte here, *const there = reinterpret_cast<std::byte*>(const_cast<Host*>(peer.host));
    const Span to{&here, 1}, from{there, 1};
    SpanCursor local({&to, 1}), remote({&from, 1});
    if (read_remote(peer.pid, local, remote, 1) == 0)
      throw TransportError("process " + std::to_string(peer.pid) + " has ended already");
    return choice;
  } catch (const TransportError&) {
    if (choice == SingleCopy::on) throw;
    return SingleCopy::off;
  }
}

}  // namespace

Host::Host(const Bootstrap& bootstrap, std::vector<int> local_ranks, const ShmLayout& layout, SingleCopy single_copy) {
  std::ranges::sort(local_ranks);
  const std::size_t ranks = local_ranks.size();
  place_ = std::ranges::find(local_ranks, bootstrap.rank) - local_ranks.begin();
  const HostOffsets parts{layout};

  FileDescriptor file;  // closed when all have mapped it: from then on only mappings keep the memory alive
  const std::vector<std::string> greetings = all_gather_or_throw(bootstrap, [&] {
    if (place_ == ranks) throw UsageError("the list of this host's ranks leaves out the rank that hands it in");
    if (ranks > kMostRanks) throw UsageError("more than " + std::to_string(kMostRanks) + " ranks of one host");
    if (ranks == 1) return std::string{};
    if (place_ == 0) file = make_memory(parts.bytes());
    const Greeting mine{getpid(), file.get(), place_ == 0 ? id_of(file) : FileId{}, this, layout};
    return std::string(reinterpret_cast<const char*>(&mine), sizeof mine);
  });

  all_gather_or_throw(bootstrap, [&] {
    if (ranks == 1) return std::string{};
    std::vector<Greeting> all;
    all.reserve(ranks);
    for (const int rank : local_ranks) all.push_back(greeting_of(rank, greetings[rank], layout));
    if (place_ > 0) file = open_memory_of(all[0].pid, all[0].fd, all[0].file);
    memory_ = Mapping(file, parts.bytes());
    const auto boards_of = [&](std::size_t rank) {
      return reinterpret_cast<Boards*>(memory_.data() + parts.boards(rank));
    };
    const auto outbox_of = [&](std::size_t rank) { return outbox_at(memory_, parts.outbox(rank), layout); };
    boards_ = boards_of(place_);
    outbox_ = outbox_of(place_);
    memory_.reserve(memory_.data() + parts.boards(place_), kBoardBytes);
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (peer == place_) continue;
      neighbours_.push_back({.rank = local_ranks[peer],
                             .process = Process(all[peer].pid),
                             .in = lane_at(memory_, parts.lane(peer, place_), layout),
                             .out = lane_at(memory_, parts.lane(place_, peer), layout),
                             .place = peer,
                             .boards = boards_of(peer),
                             .outbox = outbox_of(peer),
                             .single_copy = single_copy_from(all[peer], single_copy)});
    }
    return std::string{};
  });
}

void Host::open_lanes(const Neighbour& neighbour) {
  neighbour.in.open();
  neighbour.out.open();
  // Release: pairs with has_opened_lanes(); the pages are there for whoever sees the bit.
  boards_->talks_to[neighbour.place / 64].fetch_or(std::uint64_t{1} << neighbour.place % 64, std::memory_order_release);
}

bool Host::has_opened_lanes(const Neighbour& neighbour) const {
  const auto talks = [](const Boards& boards, std::size_t to) {
    return (boards.talks_to[to / 64].load(std::memory_order_acquire) >> to % 64 & 1) != 0;  // pairs with open_lanes()
  };
  return talks(*boards_, neighbour.place) || talks(*neighbour.boards, place_);
}

void Host::announce(OwnerState state, const Failure& cause) {
  if (!boards_) return;
  // Relaxed: nobody else writes it.
  if (boards_->state.load(std::memory_order_relaxed) == OwnerState::open) {
    boards_->failure = cause.kind;
    const std::size_t length = cause.text.copy(boards_->reason, sizeof boards_->reason - 1);
    boards_->reason[length] = '\0';
    // Release: whoever sees the state sees the cause, and everything this rank has sent before.
    boards_->state.store(state, std::memory_order_release);
  }
  // The other fence of Readings::take_ended(): whatever this process writes from here on comes after the state, so a
  // receiver that has read such a byte sees that this rank has given up.
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace lanecast::shm
