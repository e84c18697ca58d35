// SPDX-License-Identifier: Apache-2.0
// What has gone wrong on a GPU, in words; and how its kernels are told that something has elsewhere.
#include <array>

#include "runtime/gpu_side.h"

namespace lanecast {
namespace {

constexpr std::array<std::string_view, 4> kPlaces{
    "where a piece was to arrive over peer memory", "in a barrier over peer memory",
    "where a chunk was to be handed over in peer memory",
    "where a message was to come through this host's memory"};  // gpu::Place

}  // namespace

void GpuSide::poison() {
  if (peers_) peers_->poison();
  across_.poison();
}

void GpuSide::raise_fault() const {
  std::optional<ipc::PeerFault> fault = peers_ ? peers_->fault() : std::nullopt;
  if (!fault) fault = across_.fault();
  if (!fault) return;
  const auto known = texts_.find(fault->signature);
  const std::string call = known == texts_.end() ? "a call that it has made before" : known->second;
  const std::string rank = "rank " + std::to_string(rank_);
  const std::string peer = fault->peer < 0 ? "its own host" : "rank " + std::to_string(fault->peer);
  if (fault->what == gpu::Fault::mismatch) {
    const auto other = texts_.find(fault->found);
    throw MismatchError("the ranks have made different calls: " + rank + " has made " + call + ", " + peer + " " +
                        (other == texts_.end() ? "another one" : other->second) + "; a GPU's calls have to be made " +
                        "in the same order on all ranks, with equal counts, dtype, op and root");
  }
  throw TimeoutError(rank + " waited for " + peer + " in " + call + ", " +
                     std::string(kPlaces[static_cast<int>(fault->place)]) +
                     ", until the deadline; is that rank alive, and has it made the same call, with the same algorithm "
                     "and kind of memory?");
}

}  // namespace lanecast
