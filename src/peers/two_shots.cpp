// SPDX-License-Identifier: Apache-2.0
// All-reduces and broadcasts in two shots, each by one kernel: ranks have shares of the vector, which they reduce or
// get from the root, and tell the others.
#include <algorithm>
#include <cstddef>

#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

// Pieces, by what was fastest on H100s; with 24 and 32 blocks longer ones made an all-reduce up to 8 % slower. So few
// blocks as kFewBlocks take them twice as long, since each costs a signal.
constexpr std::size_t kTwoShotPiece = std::size_t{64} << 10;
constexpr std::size_t kBroadcastPiece = std::size_t{32} << 10;  // 64 MiB among four H200s 381 -> 264 us
constexpr int kFewBlocks = 16;
// Of all-reduces by the multiprocessors' copy engines, on H100s: with few blocks they are ahead of threads from where a
// rank sends so much in each shot, and with many about as fast from here on, by less than half of those.
constexpr std::size_t kPumpedByFew = std::size_t{16} << 20, kPumped = std::size_t{64} << 20;
constexpr std::size_t kPumpedPieces = std::size_t{128} << 10;  // of a round, to all peers
constexpr int kPumpedBlocks = 24;
// To the peers, of which NVLink 4 carries some 390; where several ranks send to one, held back a little more they are
// faster.
constexpr double kLinkBytesPerSecond = 365e9, kLinkOfSeveral = 350e9;

/// Of gpu::Exchange.
gpu::u32 pace_ps(int ranks, int blocks) {
  return static_cast<gpu::u32>(1e12 * 1024 / (ranks == 2 ? kLinkBytesPerSecond : kLinkOfSeveral) * blocks);
}

/// May copy engines of multiprocessors move this rank's messages?
bool suits_pumps(const gpu::Exchange& x) {
  gpu::u64 places = 0;
  for (gpu::u32 q = 0; q < x.ranks; ++q) places |= x.source[q] | x.target[q];
  return places % 16 == 0;
}

}  // namespace

bool PeerGroup::pumps(DType dtype, ReduceOp op, std::size_t bytes) const {
  if (!pumps_ || !launches_.has_pumps(dtype) || (op != ReduceOp::sum && op != ReduceOp::avg)) return false;
  return share_of(bytes, 0, size()).bytes * (size() - 1) >= (has_few_blocks() ? kPumpedByFew : kPumped);
}

void PeerGroup::by_two_shot(const PeerCall& call, gpu::Stream stream) {
  if (size() == 1) return by_kernel(call, stream);
  if (call.parcels.root >= 0) return spread(call, stream);
  const gpu::Device::Current current(*device_);
  const Parcel in = call.parcels.send[rank()], out = call.parcels.receive[rank()];
  gpu::Exchange x = exchange_arguments(call);
  for (int q = 0; q < size(); ++q) {
    const Share share = share_of(in.bytes, q, size());
    x.source[q] = in.at + share.begin;
    x.target[q] = out.at + share.begin;
    x.send_bytes[q] = x.recv_bytes[q] = share.bytes;
  }
  const std::size_t largest = share_of(in.bytes, 0, size()).bytes;
  const bool by_pumps = pumps(call.dtype, call.op, in.bytes), few = options_.max_ctas <= kFewBlocks;
  const int most = by_pumps ? std::min(kPumpedBlocks, options_.max_ctas) : most_blocks(largest);
  const std::size_t pumped_piece = kPumpedPieces / static_cast<std::size_t>(size() - 1);
  const int blocks = cut(x, largest, most, (few ? 2 : 1) * (by_pumps ? pumped_piece : kTwoShotPiece));
  x.pace_ps = pace_ps(size(), blocks);
  if (x.offered) offer(call, stream);
  if (by_pumps && suits_pumps(x))
    launches_.pumped_two_shot(call.dtype, x, blocks, stream);
  else
    launches_.two_shot(call.dtype, x, blocks, stream);
}

void PeerGroup::spread(const PeerCall& call, gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const int root = call.parcels.root;
  const bool is_root = root == rank();
  const Parcel whole = is_root ? call.parcels.send[(root + 1) % size()] : call.parcels.receive[root];
  gpu::Exchange x = exchange_arguments(call);
  x.root = static_cast<gpu::u32>(root);
  for (int q = 0; q < size(); ++q) {
    const Share share = q == root ? Share{} : share_of(whole.bytes, q - (q > root ? 1 : 0), size() - 1);
    x.source[q] = x.target[q] = whole.at + share.begin;
    x.recv_bytes[q] = share.bytes;
    x.send_bytes[q] = is_root ? share.bytes : 0;
  }
  const std::size_t largest = share_of(whole.bytes, 0, size() - 1).bytes;
  launches_.broadcast(x, cut(x, largest, most_blocks(largest), kBroadcastPiece), stream);
}

}  // namespace lanecast::peers
