// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/host.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "base/error.h"
#include "transport/shm/cma.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kBoardBytes = 12288;  // whole pages, so that the lanes start on one
static_assert(sizeof(Boards) <= kBoardBytes);

/// What a rank tells the others of its host.
struct Greeting {
  int pid;
  int fd;
  FileId file;
  std::byte* inbox_address;  // in its memory
  Layout layout;
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

Greeting greeting_of(int rank, const std::string& text, const Layout& layout) {
  Greeting greeting{};
  if (text.size() == sizeof greeting) std::memcpy(&greeting, text.data(), sizeof greeting);
  if (greeting.layout != layout)
    throw UsageError("rank " + std::to_string(rank) + " has other ShmOptions or another list of this host's ranks");
  return greeting;
}

/// Which lane of `receiver`'s inbox belongs to `sender`, both as places among the ranks of the host.
std::size_t lane_index(std::size_t sender, std::size_t receiver) { return sender < receiver ? sender : sender - 1; }

Lane lane_at(std::byte* memory, std::size_t ring_bytes) {
  return {reinterpret_cast<LaneControl*>(memory), memory + kControlBytes, ring_bytes};
}

/// What was asked for, or `off` where the system does not let us read the peer.
SingleCopy single_copy_from(const Greeting& peer, SingleCopy choice) {
  if (choice == SingleCopy::off) return choice;
  try {
    std::byte here, *const there = peer.inbox_address;
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

Host::Host(const Bootstrap& bootstrap, std::vector<int> local_ranks, const Layout& layout, SingleCopy single_copy) {
  std::ranges::sort(local_ranks);
  const std::size_t ranks = local_ranks.size();
  const std::size_t me = std::ranges::find(local_ranks, bootstrap.rank) - local_ranks.begin();
  const std::size_t lane_bytes = kControlBytes + layout.ring_bytes;
  const std::size_t lanes_at = kBoardBytes + outbox_bytes(layout);
  const std::size_t inbox_bytes = lanes_at + (ranks - 1) * lane_bytes;

  FileDescriptor file;  // closed when all have mapped it: from then on only mappings keep the memory alive
  const std::vector<std::string> greetings = all_gather_or_throw(bootstrap, [&] {
    if (me == ranks) throw UsageError("the list of this host's ranks leaves out the rank that hands it in");
    if (ranks == 1) return std::string{};
    file = reserve_memory(inbox_bytes);
    inbox_ = Mapping(file, 0, inbox_bytes);
    boards_ = reinterpret_cast<Boards*>(inbox_.data());
    outbox_ = outbox_at(inbox_.data() + kBoardBytes, layout);
    const Greeting mine{getpid(), file.get(), id_of(file), inbox_.data(), layout};
    return std::string(reinterpret_cast<const char*>(&mine), sizeof mine);
  });

  all_gather_or_throw(bootstrap, [&] {
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      if (peer == me) continue;
      const int rank = local_ranks[peer];
      const Greeting theirs = greeting_of(rank, greetings[rank], layout);
      const FileDescriptor their_file = open_memory_of(theirs.pid, theirs.fd, theirs.file);
      std::byte* const common = neighbouring_.emplace_back(their_file, 0, lanes_at).data();
      const Mapping& lane =
          neighbouring_.emplace_back(their_file, lanes_at + lane_index(me, peer) * lane_bytes, lane_bytes);
      neighbours_.push_back(
          {.rank = rank,
           .process = Process(theirs.pid),
           .in = lane_at(inbox_.data() + lanes_at + lane_index(peer, me) * lane_bytes, layout.ring_bytes),
           .out = lane_at(lane.data(), layout.ring_bytes),
           .boards = reinterpret_cast<const Boards*>(common),
           .outbox = outbox_at(common + kBoardBytes, layout),
           .single_copy = single_copy_from(theirs, single_copy)});
    }
    return std::string{};
  });
}

void Host::announce(OwnerState state, const Failure& cause) {
  for (const Neighbour& neighbour : neighbours_) {
    LaneControl& control = *neighbour.in.control;
    // Relaxed: nobody else writes it.
    if (control.owner_state.load(std::memory_order_relaxed) != OwnerState::open) continue;
    control.owner_failure = cause.kind;
    const std::size_t length = cause.text.copy(control.owner_reason, sizeof control.owner_reason - 1);
    control.owner_reason[length] = '\0';
    // Release: whoever sees the state sees the cause, and everything this rank has sent before.
    control.owner_state.store(state, std::memory_order_release);
  }
  // The other fence of Readings::take_ended(): whatever this process writes from here on comes after the states, so a
  // receiver that has read such a byte sees that this rank has given up.
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace lanecast::shm
