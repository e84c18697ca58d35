// SPDX-License-Identifier: Apache-2.0
// A collective by one kernel, which waits for the other ranks' while it runs: in pieces through the slots that ranks
// keep for each other.
#include <algorithm>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

constexpr std::size_t kAlignment = 128;     // of pieces and slots: whole lines
constexpr std::size_t kMostRounds = 65000;  // 16 bits of a flag count them

std::size_t divided_up(std::size_t bytes, std::size_t by) { return (bytes + by - 1) / by; }

}  // namespace

gpu::Exchange PeerGroup::exchange_arguments(const PeerCall& call) const {
  gpu::Exchange x{};
  x.rank = static_cast<gpu::u32>(rank());
  x.ranks = static_cast<gpu::u32>(size());
  x.op = static_cast<gpu::u32>(call.op);
  x.root = gpu::kNoRoot;
  x.signature = call.signature;
  x.multicast = call.parcels.multicast;
  x.offered = call.windows.table != 0;
  x.own_counts = call.parcels.own_counts;
  x.divisor = call.divisor;
  x.overrange = call.overrange;
  x.timeout_ns = faults_.timeout_ns();
  x.control = memory_.control();
  x.fault = faults_.device();
  x.room_bytes = gpu::room_bytes(x.ranks);
  for (int q = 0; q < size(); ++q) {
    x.inbox[q] = memory_.inbox(q);
    x.flags[q] = memory_.flags(q);
  }
  return x;
}

int PeerGroup::cut(gpu::Exchange& x, std::size_t largest_bytes, const KernelCut& how) const {
  const std::size_t blocks = cuts_.sharers(largest_bytes, how.blocks);
  x.slot_bytes = x.room_bytes / (gpu::kSlots * blocks * kAlignment) * kAlignment;
  const std::size_t longest = std::min<std::size_t>(how.longest_piece, x.slot_bytes);
  const std::size_t piece = cuts_.piece(std::max<std::size_t>(divided_up(largest_bytes, blocks), 1), longest);
  x.slice_bytes = divided_up(piece, kAlignment) * kAlignment;
  const auto pieces_of = [&](const gpu::u64* messages) {
    const std::size_t bytes = *std::max_element(messages, messages + size());
    const std::size_t pieces = gpu::pieces(bytes, blocks, x.slice_bytes);
    if (pieces < kMostRounds) return static_cast<gpu::u32>(pieces);
    throw UsageError("rank " + std::to_string(rank()) + ": a message of " + std::to_string(bytes) +
                     " bytes is too long for max_ctas=" + std::to_string(cuts_.max_ctas()) +
                     "; raise it, or name algorithm='copy_engine'");
  };
  x.send_rounds = pieces_of(x.send_bytes);
  x.recv_rounds = pieces_of(x.recv_bytes);
  return static_cast<int>(blocks);
}

void PeerGroup::by_kernel(const PeerCall& call, gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const Parcels& parcels = call.parcels;
  gpu::Exchange x = exchange_arguments(call);
  for (int q = 0; q < size(); ++q) {
    x.source[q] = parcels.send[q].at;
    x.send_bytes[q] = parcels.send[q].bytes;
    x.target[q] = parcels.receive[q].at;
    x.recv_bytes[q] = parcels.receive[q].bytes;
  }
  if (parcels.reduces) x.target[0] = parcels.receive[rank()].at;
  const int blocks = cut(x, parcels.largest_bytes, cuts_.exchange(parcels.largest_bytes, parcels.reduces));
  if (x.offered) offer(call, stream);
  if (parcels.reduces)
    launches_.exchange_and_reduce(call.dtype, x, blocks, stream);
  else
    launches_.exchange(x, blocks, stream);
}

}  // namespace lanecast::peers
