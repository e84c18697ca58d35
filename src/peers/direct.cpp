// SPDX-License-Identifier: Apache-2.0
// A collective on symmetric memory: what moves is written to its place, or read from it, at the peers, with no copy in
// between: by one kernel that meets the peers' before and after, or by copy engines between two barriers.
#include <algorithm>

#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

/// The same place in another member's memory.
gpu::Address at_member(const SharedMemory& memory, int member, gpu::Address own) {
  return memory.of(member) + (own - memory.own());
}

}  // namespace

int PeerGroup::meeting_blocks(std::size_t bytes) const { return Launches::blocks_for(bytes, cuts_.max_ctas()); }

int PeerGroup::direct_blocks(const Parcels& parcels, std::size_t bytes) const {
  return cuts_.direct_blocks(meeting_blocks(bytes), /*all_reduce=*/parcels.reduces && parcels.multicast);
}

void PeerGroup::direct_copy(const PeerCall& call, const SharedMemory& output, gpu::Stream stream) const {
  const Parcels& parcels = call.parcels;
  const gpu::Address place = parcels.receive[rank()].at;
  gpu::Direct d{group(call.signature), {}, {}};
  d.work.source[0] = parcels.send[rank()].at;
  d.work.bytes = parcels.send[rank()].bytes;
  d.work.sources = 1;
  for (int k = 0; k < size(); ++k) {  // ranks begin with different peers, so that not all write to one of them
    const gpu::Address to = at_member(output, (rank() + k) % size(), place);
    if (to != d.work.source[0]) d.work.target[d.work.targets++] = to;
  }
  launches_.direct_copy(d, meeting_blocks(parcels.largest_bytes), stream);
}

void PeerGroup::direct_copy_by_engines(const PeerCall& call, const SharedMemory& output, gpu::Stream stream) const {
  const Parcels& parcels = call.parcels;
  const gpu::Address place = parcels.receive[rank()].at;
  const gpu::GroupArguments all = group(call.signature);
  const int blocks = meeting_blocks(parcels.largest_bytes);
  launches_.meeting(all, blocks, stream);
  engines_.fork(stream);
  // To one peer after another: among four H200s 387 GB/s, to all three at once 232.
  for (int k = 1; k < size(); ++k) {
    const int q = (rank() + k) % size();
    const Parcel& parcel = parcels.send[q];
    if (parcel.bytes != 0)
      device_->check(device_->driver().copy(at_member(output, q, place), parcel.at, parcel.bytes, engines_.push(1, 0)),
                     "cuMemcpyAsync");
  }
  launches_.copy_within(place, parcels.send[rank()].at, parcels.send[rank()].bytes, cuts_.blocks_beside_engines(),
                        stream);
  engines_.join(stream);
  launches_.meeting(all, blocks, stream);
}

PeerGroup::Share PeerGroup::share_of(std::size_t bytes, int k, int shares) {
  constexpr std::size_t kAlignment = 16;
  const std::size_t line = static_cast<std::size_t>(shares) * kAlignment;
  const std::size_t share = (bytes + line - 1) / line * kAlignment;
  const std::size_t begin = std::min(bytes, share * static_cast<std::size_t>(k));
  return {begin, std::min(share, bytes - begin)};
}

void PeerGroup::direct_reduce(const PeerCall& call, const SharedMemory& input, const SharedMemory* output,
                              gpu::Stream stream) const {
  const Parcel source = call.parcels.send[rank()], target = call.parcels.receive[rank()];
  gpu::Direct d{group(call.signature), {}, {}};
  gpu::ReductionArguments& r = d.work;
  const Share share = output ? share_of(source.bytes, rank(), size()) : Share{0, source.bytes};
  const std::size_t largest = output ? share_of(source.bytes, 0, size()).bytes : call.parcels.largest_bytes;
  r.bytes = share.bytes;
  for (int q = 0; q < size(); ++q) {
    r.source[r.sources++] = at_member(input, q, source.at) + share.begin;
    if (output) r.target[r.targets++] = at_member(*output, q, target.at) + share.begin;
  }
  if (!output) r.target[r.targets++] = target.at;
  r.op = static_cast<gpu::u32>(call.op);
  r.divisor = call.divisor;
  r.overrange = call.overrange;
  launches_.direct_reduce(call.dtype, d, direct_blocks(call.parcels, largest), stream);
}

void PeerGroup::offer(const PeerCall& call, gpu::Stream stream) const {
  const WindowBuffers& buffers = call.windows;
  const Parcel source = call.parcels.send[rank()], target = call.parcels.receive[rank()];
  const bool for_all = buffers.in_place && buffers.out_place;
  const Share share = for_all ? share_of(source.bytes, rank(), size()) : Share{0, source.bytes};
  const int blocks =
      direct_blocks(call.parcels, for_all ? share_of(source.bytes, 0, size()).bytes : call.parcels.largest_bytes);
  gpu::Direct d{group(call.signature), {}, {}};
  d.work.bytes = share.bytes;
  d.work.op = static_cast<gpu::u32>(call.op);
  d.work.divisor = call.divisor;
  d.work.overrange = call.overrange;
  d.offering = {buffers.table,
                buffers.in_place,
                buffers.out_place,
                buffers.in,
                buffers.out,
                source.at - buffers.in + share.begin,
                target.at - buffers.out + share.begin};
  if (call.parcels.reduces)
    launches_.direct_reduce(call.dtype, d, blocks, stream);
  else
    launches_.direct_copy(d, blocks, stream);
}

void PeerGroup::by_direct(const PeerCall& call, const SharedMemory* input, const SharedMemory* output,
                          gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const Parcels& parcels = call.parcels;
  const bool apart = parcels.send[rank()].at != parcels.receive[rank()].at;
  if (parcels.reduces)
    direct_reduce(call, *input, output, stream);
  else if (cuts_.direct_by_engines(parcels.largest_bytes, parcels.multicast, apart))
    direct_copy_by_engines(call, *output, stream);
  else
    direct_copy(call, *output, stream);
}

}  // namespace lanecast::peers
