// SPDX-License-Identifier: Apache-2.0
// A collective on symmetric memory: what moves is written to its place, or read from it, at the peers, with no copy in
// between. A barrier before, since the peers' memory has to be ready, and one after, since it is read and written.
#include <algorithm>

#include "transport/ipc/peer_group.h"

namespace lanecast::ipc {
namespace {

/// The same place in another member's memory.
gpu::Address at_member(const SharedMemory& memory, int member, gpu::Address own) {
  return memory.of(member) + (own - memory.own());
}

}  // namespace

void PeerGroup::direct_copy(const PeerCall& call, const SharedMemory& output, gpu::Stream stream) const {
  const Parcels& parcels = call.parcels;
  const gpu::Address place = parcels.receive[rank()].at;
  gpu::Reduction copy{};
  const auto write = [&] {
    if (copy.bytes != 0 && copy.targets != 0) copy_to_all(copy, multiprocessors_, stream);
    copy = {};
  };
  for (int k = 0; k < size(); ++k) {
    const int q = (rank() + k) % size();
    const Parcel& parcel = parcels.send[q];
    const gpu::Address to = at_member(output, q, place);
    copy.source[0] = parcel.at;
    copy.bytes = parcel.bytes;
    if (to != parcel.at) copy.target[copy.targets++] = to;
    if (!parcels.multicast) write();
  }
  write();
}

void PeerGroup::direct_reduce(const PeerCall& call, const SharedMemory& input, const SharedMemory* output,
                              gpu::Stream stream) const {
  const Parcel source = call.parcels.send[rank()], target = call.parcels.receive[rank()];
  gpu::Reduction r{};
  std::size_t begin = 0;
  r.bytes = source.bytes;
  if (output) {  // each member reduces a share for all
    constexpr std::size_t kAlignment = 16;
    const auto members = static_cast<std::size_t>(size());
    const std::size_t share = (source.bytes / members / kAlignment + 1) * kAlignment;
    begin = std::min(source.bytes, share * static_cast<std::size_t>(rank()));
    r.bytes = std::min(share, source.bytes - begin);
  }
  for (int q = 0; q < size(); ++q) {
    r.source[r.sources++] = at_member(input, q, source.at) + begin;
    if (output) r.target[r.targets++] = at_member(*output, q, target.at) + begin;
  }
  if (!output) r.target[r.targets++] = target.at;
  r.op = static_cast<gpu::u32>(call.op);
  r.divisor = call.divisor;
  launches_.reduce(call.dtype, r, Launches::blocks_for(r.bytes, multiprocessors_), stream);
}

void PeerGroup::by_direct(const PeerCall& call, const SharedMemory* input, const SharedMemory* output,
                          gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  barrier(call.signature, stream);
  if (call.parcels.reduces)
    direct_reduce(call, *input, output, stream);
  else
    direct_copy(call, *output, stream);
  barrier(call.signature, stream);
}

}  // namespace lanecast::ipc
