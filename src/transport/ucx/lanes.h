// SPDX-License-Identifier: Apache-2.0
// The lanes of a rank, and how a message is cut into a head, which the caller's own thread moves, and a share for each
// of them.
//
// Both sides cut alike as long as they agree on the length. A message that is not cut is never as long as a head, one
// that all lanes carry has a longer head than one that only the first of each NIC carry, and all of its shares are
// sent, empty or not: so wherever the lengths differ two that meet differ, and that is noticed.
#pragma once

#include <memory>
#include <vector>

#include "transport/ucx/lane.h"

namespace lanecast::ucx {

class UcxLanes {
 public:
  /// A longer message is cut. Two lanes move 64 KiB in the time of a few wake-ups.
  static constexpr std::size_t kLongestWhole = (std::size_t{64} << 10) - 1;
  static constexpr std::size_t kHead = kLongestWhole + 1, kHeadOfMany = kHead + 4096;

  /// Collective: as many as the rank wants that wants the fewest. On rank r lane k talks to the peers' lanes k.
  UcxLanes(const Bootstrap& bootstrap, int wanted);

  std::size_t count() const { return lanes_.size(); }
  /// As in Traits.
  int nics_at_once() const { return count() < most_nics_ ? 1 : static_cast<int>(most_nics_); }
  bool cut(std::size_t bytes) const { return !lanes_.empty() && bytes > kLongestWhole; }
  /// How many of them carry a message that is cut, and the bytes of it that go ahead.
  std::size_t count_for(std::size_t bytes) const;
  std::size_t head(std::size_t bytes) const;

  /// See UcxLane.
  void connect(std::span<const int> peers);
  /// Posts all of the message but its head. shares: kept by the caller until all have ended.
  void post(const Message& message, std::uint64_t tag, bool receive, void* owner, std::vector<LaneShare>& shares);
  void take_ended(std::vector<LaneShare*>& ended);
  /// See UcxLane: of all of them.
  void leave();
  void give_up();
  void await_over();

 private:
  std::vector<std::unique_ptr<UcxLane>> lanes_;
  std::size_t nics_ = 1;       // of the rank that has the fewest: all cut alike
  std::size_t most_nics_ = 1;  // of the one that has the most
};

/// The first `bytes` of the memory from `from` on.
std::vector<Span> part_of(std::span<const Span> memory, std::size_t from, std::size_t bytes);

/// As many lanes as pay for a rank that shares its host with others, `ranks` in all: over TCP one for each of its NICs
/// if there are cores for them, up to three where these leave as many cores again; none where a NIC does the work by
/// itself.
int lanes_that_pay(int ranks);

/// Whether UCX with so many lanes should carry what an MPI could: over TCP the MPI has one thread for it. Not where an
/// adapter of this host moves messages by itself, which the MPI may know though UCX does not; nor without UCX; nor
/// where nobody has asked for lanes or named the NICs, since UCX by itself may take one that reaches no other host.
bool better_than_mpi(int lanes, bool asked_for);

}  // namespace lanecast::ucx
