// SPDX-License-Identifier: Apache-2.0
// Along a chain, by one kernel: a broadcast begins with the root, and each rank passes on what it gets; a reduce ends
// with it, and each rank adds what it brings.
#include "peers/peer_group.h"

namespace lanecast::peers {

void PeerGroup::by_chain(const PeerCall& call, gpu::Stream stream) {
  if (size() == 1) return by_kernel(call, stream);
  const gpu::Device::Current current(*device_);
  const int root = call.parcels.root;
  gpu::Exchange x = exchange_arguments(call);
  x.root = static_cast<gpu::u32>(root);
  if (call.parcels.reduces) {
    const Parcel in = call.parcels.send[root];
    x.source[rank()] = in.at;
    x.target[rank()] = call.parcels.receive[rank()].at;
    x.recv_bytes[rank()] = in.bytes;
    launches_.summed_chain(call.dtype, x, cut(x, in.bytes, cuts_.chain(in.bytes, /*pumped=*/false)), stream);
    return;
  }
  const Parcel whole = root == rank() ? call.parcels.send[(root + 1) % size()] : call.parcels.receive[root];
  x.source[rank()] = whole.at;
  x.target[rank()] = kept_of(call.parcels, whole).at;
  x.recv_bytes[rank()] = whole.bytes;
  const bool by_pumps = pumps_ && cuts_.chain_pumped(whole.bytes);
  const int blocks = cut(x, whole.bytes, cuts_.chain(whole.bytes, by_pumps));
  x.pace_ps = cuts_.pace_ps(/*ranks=*/2, blocks);  // as between two: one rank writes to each
  if (by_pumps && (x.source[rank()] | x.target[rank()]) % 16 == 0)
    launches_.pumped_chain(x, blocks, stream);
  else
    launches_.chain(x, blocks, stream);
}

}  // namespace lanecast::peers
