// SPDX-License-Identifier: Apache-2.0
#include "select/peer_cuts.h"

#include <algorithm>

namespace lanecast {
namespace {

std::size_t divided_up(std::size_t bytes, std::size_t by) { return (bytes + by - 1) / by; }

}  // namespace

int PeerCuts::blocks(std::size_t bytes) const {
  const SlotCuts& slots = kind_->slots;
  return std::min(bytes < slots.long_bytes ? slots.short_blocks : most_ctas_, max_ctas_);
}

KernelCut PeerCuts::exchange(std::size_t bytes, bool reduces) const {
  const SlotCuts& slots = kind_->slots;
  const bool few = reduces && max_ctas_ <= slots.few_reduce;
  return {blocks(bytes), (few ? 2 : 1) * slots.longest_piece};
}

KernelCut PeerCuts::broadcast(std::size_t bytes) const { return {blocks(bytes), kind_->two_shots.broadcast_piece}; }

KernelCut PeerCuts::chain(std::size_t bytes, bool pumped) const {
  const ChainCuts& cuts = kind_->chain;
  if (pumped) return {std::min(cuts.pumped_blocks, max_ctas_), cuts.pumped_piece};
  return {blocks(bytes), cuts.piece};
}

KernelCut PeerCuts::two_shot(std::size_t bytes, int ranks, bool pumped) const {
  const TwoShotCuts& cuts = kind_->two_shots;
  const std::size_t longer = max_ctas_ <= cuts.few_blocks ? 2 : 1;
  if (pumped)
    return {std::min(cuts.pumped_blocks, max_ctas_),
            longer * (cuts.pumped_pieces / static_cast<std::size_t>(ranks - 1))};
  return {blocks(bytes), longer * cuts.piece};
}

bool PeerCuts::pumped(std::size_t sent_bytes) const {
  return sent_bytes >= (few_ctas() ? kind_->two_shots.pumped_by_few : kind_->two_shots.pumped);
}

std::uint32_t PeerCuts::pace_ps(int ranks, int blocks) const {
  const TwoShotCuts& cuts = kind_->two_shots;
  const double bytes_per_s = ranks == 2 ? cuts.link_bytes_per_s : cuts.link_of_several_bytes_per_s;
  return bytes_per_s > 0 ? static_cast<std::uint32_t>(1e12 * 1024 / bytes_per_s * blocks) : 0;
}

int PeerCuts::lanes(std::size_t bytes, int most) const {
  return static_cast<int>(std::clamp<std::size_t>(bytes / kind_->program_lane_bytes, 1, std::min(blocks(bytes), most)));
}

std::size_t PeerCuts::sharers(std::size_t bytes, int most) const {
  return std::clamp<std::size_t>(divided_up(bytes, kind_->slots.block_bytes), 1, most);
}

std::size_t PeerCuts::piece(std::size_t share_bytes, std::size_t longest) const {
  const SlotCuts& slots = kind_->slots;
  std::size_t most = longest;
  if (share_bytes >= slots.whole_bytes)
    most = std::min({most, divided_up(share_bytes, slots.least_pieces),
                     share_bytes <= slots.short_bytes ? slots.short_piece : most});
  return divided_up(share_bytes, divided_up(share_bytes, most));
}

int PeerCuts::direct_blocks(int meeting, bool all_reduce) const {
  return std::min(meeting, all_reduce && few_ctas() ? kind_->direct.all_reduce_blocks : most_ctas_);
}

bool PeerCuts::direct_by_engines(std::size_t bytes, bool multicast, bool apart) const {
  if (!multicast) return true;  // a message of its own to each: no kernel here has several sources
  return bytes >= (apart && !few_ctas() ? kind_->direct.by_engines_apart : kind_->direct.by_engines);
}

int PeerCuts::blocks_beside_engines() const { return std::min(kind_->direct.blocks_beside_engines, max_ctas_); }

std::size_t PeerCuts::engine_chunk(std::size_t room_bytes) const {
  return std::min(room_bytes, kind_->direct.engine_chunk_bytes);
}

}  // namespace lanecast
