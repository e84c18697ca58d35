// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/lanes.h"

#include <sched.h>

#include <algorithm>

#include "transport/span_cursor.h"
#include "transport/ucx/nics.h"

namespace lanecast::ucx {
namespace {

// One lane for a NIC of 10 Gbit/s is busy 93 to 97 % of the time, so one way waits where the other has more to move. Of
// 16 cores, two for each of two NICs bring all-gathers of 16 MiB from 0.85 to 0.92 of what the NICs can, three to 0.96,
// four no further. Where ranks have but 4 cores for all that they do, a second one made calls up to 16 % slower.
constexpr int kMostLanesOfNic = 3;
constexpr int kSpareCoresOfLane = 2;                         // where a NIC has more than one
constexpr std::size_t kCarriedByAll = std::size_t{1} << 20;  // bytes of a message; of shorter ones wake-ups cost more
constexpr std::size_t kAligned = 4096;                       // shares but the last are so many bytes, or times as many

/// One for each NIC if there are cores for them, more where these leave as many cores again.
constexpr int lanes_of(int spare_cores, int nics) {
  const int of_nic = std::min(kMostLanesOfNic, spare_cores / kSpareCoresOfLane / nics);
  return of_nic > 1 ? of_nic * nics : std::clamp(spare_cores, 0, nics);
}
static_assert(lanes_of(0, 2) == 0 && lanes_of(1, 2) == 1 && lanes_of(7, 2) == 2);
static_assert(lanes_of(8, 2) == 4 && lanes_of(15, 2) == 6 && lanes_of(63, 1) == 3);

}  // namespace

int lanes_that_pay(int ranks) {
  const std::vector<std::string> nics = devices();
  if (!over_tcp(nics)) return 0;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return lanes_of(CPU_COUNT(&cores) / ranks - 1, std::max(1, static_cast<int>(nics.size())));
}

bool better_than_mpi(int lanes, bool asked_for) {
  if (lanes == 0 || (!asked_for && devices().empty())) return false;
  return !has_any("infiniband") && !has_any("cxi_user") && Ucp::found();  // the latter is Slingshot
}

UcxLanes::UcxLanes(const Bootstrap& bootstrap, int wanted) {
  const std::vector<std::string> nics = devices();
  struct Means {
    int lanes, nics;
  };
  const Means mine{wanted, std::max(1, static_cast<int>(nics.size()))};
  std::vector<Means> all(bootstrap.size);
  bootstrap.all_gather(&mine, all.data(), sizeof mine);
  const int count = std::ranges::min(all, {}, &Means::lanes).lanes;
  const auto [fewest, most] = std::ranges::minmax(all, {}, &Means::nics);
  nics_ = fewest.nics;
  most_nics_ = most.nics;
  for (int k = 0; k < count; ++k)
    lanes_.push_back(std::make_unique<UcxLane>(bootstrap, nics.empty() ? std::string() : nics[k % nics.size()]));
}

void UcxLanes::connect(std::span<const int> peers) {
  for (const auto& lane : lanes_) lane->connect(peers);
  for (const auto& lane : lanes_) lane->await_connected();
}

std::size_t UcxLanes::count_for(std::size_t bytes) const {
  return bytes < kCarriedByAll ? std::min(count(), nics_) : count();
}

std::size_t UcxLanes::head(std::size_t bytes) const { return count_for(bytes) > nics_ ? kHeadOfMany : kHead; }

void UcxLanes::post(const Message& message, std::uint64_t tag, bool receive, void* owner,
                    std::vector<LaneShare>& shares) {
  shares.assign(count_for(message.bytes), {});
  const std::size_t count = shares.size(), head = this->head(message.bytes), all = message.bytes - head;
  const auto aligned = [](std::size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; };
  const std::size_t each = aligned(message.bytes / count);
  // The head goes through the first lane's NIC, the one that UCX takes for the worker: of chunks of 1 MiB on two NICs
  // the first had 53 % when shares were equal. Its lanes carry so much less, each:
  const std::size_t ahead = aligned(head / ((count + nics_ - 1) / nics_));
  for (std::size_t k = 0, from = 0; k < count; ++k) {
    const std::size_t part = k % nics_ == 0 ? each - std::min(each, ahead) : each;
    const std::size_t bytes = k + 1 < count ? std::min(part, all - from) : all - from;
    LaneShare& share = shares[k];
    share.owner = owner;
    share.peer = message.peer;
    share.tag = tag;
    share.receive = receive;
    share.memory = part_of(message.memory, head + from, bytes);
    share.bytes = bytes;
    lanes_[k]->post(share);
    from += bytes;
  }
}

void UcxLanes::take_ended(std::vector<LaneShare*>& ended) {
  for (const auto& lane : lanes_) lane->take_ended(ended);
}

void UcxLanes::leave() {
  for (const auto& lane : lanes_) lane->leave();
}

void UcxLanes::give_up() {
  for (const auto& lane : lanes_) lane->give_up();
}

void UcxLanes::await_over() {
  for (const auto& lane : lanes_) lane->await_over();
}

std::vector<Span> part_of(std::span<const Span> memory, std::size_t from, std::size_t bytes) {
  std::vector<Span> part;
  SpanCursor cursor(memory);
  cursor.skip(from);
  for (; bytes > 0; bytes -= part.back().bytes) part.push_back(cursor.take(bytes));
  return part;
}

}  // namespace lanecast::ucx
