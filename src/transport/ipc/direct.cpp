// SPDX-License-Identifier: Apache-2.0
// A collective on symmetric memory: what moves is written to its place, or read from it, at the peers, with no copy in
// between: by one kernel that meets the peers' before and after, or by copy engines between two barriers.
#include <algorithm>

#include "transport/ipc/peer_group.h"

namespace lanecast::ipc {
namespace {

/// The same place in another member's memory.
gpu::Address at_member(const SharedMemory& memory, int member, gpu::Address own) {
  return memory.of(member) + (own - memory.own());
}

}  // namespace

/// Copy engines begin later than a kernel, are faster then, and take no multiprocessor: 391 GB/s instead of 362 between
/// H200s. But 250 while a kernel copies what a rank keeps for itself, so only where that is in its place already. Ranks
/// need not agree.
bool PeerGroup::serves_engines(const Parcels& parcels) const {
  constexpr std::size_t kLong = std::size_t{16} << 20;
  if (!parcels.multicast) return true;  // a message of its own to each: no kernel here has several sources
  return parcels.largest_bytes >= kLong && parcels.send[rank()].at == parcels.receive[rank()].at;
}

int PeerGroup::meeting_blocks(std::size_t bytes) const { return Launches::blocks_for(bytes, options_.max_ctas); }

void PeerGroup::direct_copy(const PeerCall& call, const SharedMemory& output, gpu::Stream stream) const {
  const Parcels& parcels = call.parcels;
  const gpu::Address place = parcels.receive[rank()].at;
  gpu::Direct d{group(call.signature), {}};
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
  const gpu::Group all = group(call.signature);
  const int blocks = meeting_blocks(parcels.largest_bytes);
  launches_.meeting(all, blocks, stream);
  fork(stream);
  for (int k = 1; k < size(); ++k) {
    const int q = (rank() + k) % size();
    const Parcel& parcel = parcels.send[q];
    if (parcel.bytes != 0)
      device_->check(device_->driver().cuMemcpyAsync(at_member(output, q, place), parcel.at, parcel.bytes,
                                                     push_[push_to(k, 0)].get()),
                     "cuMemcpyAsync");
  }
  copy_within(place, parcels.send[rank()].at, parcels.send[rank()].bytes, stream);
  join(stream);
  launches_.meeting(all, blocks, stream);
}

void PeerGroup::direct_reduce(const PeerCall& call, const SharedMemory& input, const SharedMemory* output,
                              gpu::Stream stream) const {
  const Parcel source = call.parcels.send[rank()], target = call.parcels.receive[rank()];
  gpu::Direct d{group(call.signature), {}};
  gpu::Reduction& r = d.work;
  std::size_t begin = 0, share = source.bytes;
  if (output) {  // each member reduces a share for all
    constexpr std::size_t kAlignment = 16;
    const auto members = static_cast<std::size_t>(size());
    share = (source.bytes / members / kAlignment + 1) * kAlignment;
    begin = std::min(source.bytes, share * static_cast<std::size_t>(rank()));
  }
  r.bytes = std::min(share, source.bytes - begin);
  for (int q = 0; q < size(); ++q) {
    r.source[r.sources++] = at_member(input, q, source.at) + begin;
    if (output) r.target[r.targets++] = at_member(*output, q, target.at) + begin;
  }
  if (!output) r.target[r.targets++] = target.at;
  r.op = static_cast<gpu::u32>(call.op);
  r.divisor = call.divisor;
  launches_.direct_reduce(call.dtype, d, meeting_blocks(output ? share : call.parcels.largest_bytes), stream);
}

void PeerGroup::by_direct(const PeerCall& call, const SharedMemory* input, const SharedMemory* output,
                          gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  if (call.parcels.reduces)
    direct_reduce(call, *input, output, stream);
  else if (serves_engines(call.parcels))
    direct_copy_by_engines(call, *output, stream);
  else
    direct_copy(call, *output, stream);
}

}  // namespace lanecast::ipc
