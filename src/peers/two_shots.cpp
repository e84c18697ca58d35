// SPDX-License-Identifier: Apache-2.0
// All-reduces, reduces and broadcasts in two shots, each by one kernel: ranks have shares of the vector, which they
// reduce or get from the root, and tell the others, or the root.
#include <algorithm>
#include <cstddef>

#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

/// May copy engines of multiprocessors move this rank's messages?
bool suits_pumps(const gpu::Exchange& x) {
  gpu::u64 places = 0;
  for (gpu::u32 q = 0; q < x.ranks; ++q) places |= x.source[q] | x.target[q];
  return places % 16 == 0;
}

}  // namespace

bool PeerGroup::pumps(DType dtype, ReduceOp op, std::size_t bytes) const {
  if (!pumps_ || !launches_.has_pumps(dtype) || (op != ReduceOp::sum && op != ReduceOp::avg)) return false;
  return cuts_.pumped(share_of(bytes, 0, size()).bytes * (size() - 1));
}

PeerGroup::Share PeerGroup::share_beside(int root, std::size_t bytes, int q) const {
  if (q == root) return {};
  return root < 0 ? share_of(bytes, q, size()) : share_of(bytes, q - (q > root ? 1 : 0), size() - 1);
}

void PeerGroup::by_two_shot(const PeerCall& call, gpu::Stream stream) {
  if (size() == 1) return by_kernel(call, stream);
  const int root = call.parcels.root;
  const bool to_root = root >= 0;
  if (to_root && !call.parcels.reduces) return spread(call, stream);
  const gpu::Device::Current current(*device_);
  const Parcel in = call.parcels.send[to_root ? root : rank()], out = call.parcels.receive[rank()];
  gpu::Exchange x = exchange_arguments(call);
  if (to_root) x.root = static_cast<gpu::u32>(root);
  for (int q = 0; q < size(); ++q) {
    const Share share = share_beside(root, in.bytes, q);
    x.source[q] = in.at + share.begin;
    x.target[q] = out.at + share.begin;
    x.send_bytes[q] = x.recv_bytes[q] = share.bytes;
  }
  const std::size_t largest = *std::max_element(x.recv_bytes, x.recv_bytes + size());
  const bool by_pumps = !to_root && pumps(call.dtype, call.op, in.bytes);
  const int blocks = cut(x, largest, cuts_.two_shot(largest, size(), by_pumps));
  x.pace_ps = cuts_.pace_ps(size(), blocks);
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
  const Parcel kept = kept_of(call.parcels, whole);
  gpu::Exchange x = exchange_arguments(call);
  x.root = static_cast<gpu::u32>(root);
  for (int q = 0; q < size(); ++q) {
    const Share share = share_beside(root, whole.bytes, q);
    x.source[q] = whole.at + share.begin;
    x.target[q] = kept.at + share.begin;
    x.recv_bytes[q] = share.bytes;
    x.send_bytes[q] = is_root ? share.bytes : 0;
  }
  const std::size_t largest = *std::max_element(x.recv_bytes, x.recv_bytes + size());
  launches_.broadcast(x, cut(x, largest, cuts_.broadcast(largest)), stream);
}

}  // namespace lanecast::peers
