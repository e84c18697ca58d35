// SPDX-License-Identifier: Apache-2.0
#include "transport/ipc/peer_group.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/error.h"

namespace lanecast::ipc {
namespace {

// Of a message between two ranks, by what was fastest on H200s.
constexpr std::size_t kAlignment = 128;                   // of pieces and slots: whole lines
constexpr std::size_t kLongBytes = std::size_t{1} << 20;  // from here on it takes more multiprocessors
constexpr int kShortBlocks = 32;
constexpr std::size_t kBlockBytes = 4096;   // shorter ones take fewer blocks
constexpr std::size_t kMostRounds = 65000;  // 16 bits of a flag count them

std::size_t divided_up(std::size_t bytes, std::size_t by) { return (bytes + by - 1) / by; }

/// How much of its message a block moves at a time. In several pieces ranks send and take at once, and what is taken
/// last is short; but each costs a signal. By what was fastest on two H100s.
std::size_t piece_of(std::size_t block_bytes) {
  constexpr std::size_t kWhole = std::size_t{128} << 10;  // shorter ones go in one piece
  constexpr std::size_t kShort = std::size_t{512} << 10;  // up to here the last piece counts
  constexpr std::size_t kPiece = std::size_t{64} << 10, kLongest = std::size_t{128} << 10;
  constexpr std::size_t kPieces = 4;  // at least
  if (block_bytes < kWhole) return block_bytes;
  return std::min(divided_up(block_bytes, kPieces), block_bytes <= kShort ? kPiece : kLongest);
}

}  // namespace

PeerGroup::PeerGroup(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gpu::Kernels> kernels,
                     const Bootstrap& members, const PeerOptions& options)
    : device_(std::move(device)),
      launches_(device_, std::move(kernels)),
      options_(options),
      faults_(device_),
      memory_(device_, members, options.channels),
      credit_(device_),
      unpack_(device_),
      poison_(device_),
      begun_(device_),
      credited_(device_),
      unpacked_(device_) {
  set_timeout(options.timeout_s);
  for (int k = 0; k < 2 * (members.size - 1); ++k) {
    push_.emplace_back(device_);
    pushed_.emplace_back(device_);
  }
}

void PeerGroup::copy(void* to, const void* from, std::size_t bytes, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  device_->check(
      device_->driver().copy(reinterpret_cast<gpu::Address>(to), reinterpret_cast<gpu::Address>(from), bytes, stream),
      "cuMemcpyAsync");
}

void PeerGroup::poison_peers() {
  // This device may have failed. Then the peers have their deadlines.
  try {
    const gpu::Device::Current current(*device_);
    for (int q = 0; q < size(); ++q)
      if (q != rank())
        device_->driver().copy(memory_.control(q) + offsetof(gpu::Control, failed), faults_.poisoned(),
                               sizeof(gpu::Control::failed), poison_.get());
  } catch (const Error&) {
  }
}

int PeerGroup::most_blocks(std::size_t largest_bytes) const {
  return std::min(largest_bytes < kLongBytes ? kShortBlocks : gpu::kMostBlocks, options_.max_ctas);
}

void PeerGroup::by_kernel(const PeerCall& call, gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const Parcels& parcels = call.parcels;
  gpu::Exchange x{};
  x.rank = static_cast<gpu::u32>(rank());
  x.ranks = static_cast<gpu::u32>(size());
  x.op = static_cast<gpu::u32>(call.op);
  x.signature = call.signature;
  x.multicast = parcels.multicast;
  x.offered = call.offered;
  x.own_counts = parcels.own_counts;
  x.divisor = call.divisor;
  x.timeout_ns = timeout_ns_;
  x.control = memory_.control();
  x.fault = faults_.device();
  for (int q = 0; q < size(); ++q) {
    x.source[q] = parcels.send[q].at;
    x.send_bytes[q] = parcels.send[q].bytes;
    x.target[q] = parcels.receive[q].at;
    x.recv_bytes[q] = parcels.receive[q].bytes;
    x.inbox[q] = memory_.inbox(q);
    x.flags[q] = memory_.flags(q);
  }
  if (parcels.reduces) x.target[0] = parcels.receive[rank()].at;
  const std::size_t largest = parcels.largest_bytes;
  const std::size_t blocks = std::clamp<std::size_t>(divided_up(largest, kBlockBytes), 1, most_blocks(largest));
  x.room_bytes = gpu::room_bytes(x.ranks);
  x.slot_bytes = x.room_bytes / (gpu::kSlots * blocks * kAlignment) * kAlignment;
  const std::size_t piece = divided_up(piece_of(divided_up(largest, blocks)), kAlignment) * kAlignment;
  x.slice_bytes = std::clamp<std::size_t>(piece, kAlignment, x.slot_bytes);
  const auto pieces_of = [&](const std::vector<Parcel>& messages) {
    const std::size_t longest = std::ranges::max(messages, {}, &Parcel::bytes).bytes;
    const std::size_t pieces = gpu::pieces(longest, blocks, x.slice_bytes);
    if (pieces < kMostRounds) return static_cast<gpu::u32>(pieces);
    throw UsageError("rank " + std::to_string(rank()) + ": a message of " + std::to_string(longest) +
                     " bytes is too long for max_ctas=" + std::to_string(options_.max_ctas) +
                     "; raise it, or name algorithm='copy_engine'");
  };
  x.send_rounds = pieces_of(parcels.send);
  x.recv_rounds = pieces_of(parcels.receive);
  if (parcels.reduces)
    launches_.exchange_and_reduce(call.dtype, x, static_cast<int>(blocks), stream);
  else
    launches_.exchange(x, static_cast<int>(blocks), stream);
}

gpu::Group PeerGroup::group(std::uint16_t signature) const {
  gpu::Group group{};
  group.rank = static_cast<gpu::u32>(rank());
  group.ranks = static_cast<gpu::u32>(size());
  group.signature = signature;
  group.timeout_ns = timeout_ns_;
  for (int q = 0; q < size(); ++q) group.flags[q] = memory_.flags(q);
  group.control = memory_.control();
  group.fault = faults_.device();
  return group;
}

void PeerGroup::barrier(std::uint16_t signature, gpu::Stream stream) const {
  launches_.barrier(group(signature), stream);
}

void PeerGroup::fork(gpu::Stream stream) const {
  const gpu::Driver& driver = device_->driver();
  device_->check(driver.cuEventRecord(begun_.get(), stream), "cuEventRecord");
  const auto follow = [&](gpu::Stream on) {
    device_->check(driver.cuStreamWaitEvent(on, begun_.get(), 0), "cuStreamWaitEvent");
  };
  for (const gpu::OwnedStream& push : push_) follow(push.get());
  follow(credit_.get());
  follow(unpack_.get());
}

void PeerGroup::join(gpu::Stream stream) const {
  const gpu::Driver& driver = device_->driver();
  const auto follow = [&](const gpu::OwnedStream& from, const gpu::OwnedEvent& event) {
    device_->check(driver.cuEventRecord(event.get(), from.get()), "cuEventRecord");
    device_->check(driver.cuStreamWaitEvent(stream, event.get(), 0), "cuStreamWaitEvent");
  };
  for (std::size_t k = 0; k < push_.size(); ++k) follow(push_[k], pushed_[k]);
  follow(credit_, credited_);
  follow(unpack_, unpacked_);
}

void PeerGroup::copy_within(gpu::Address to, gpu::Address from, std::size_t bytes, gpu::Stream stream) const {
  if (bytes == 0 || to == from) return;
  gpu::Reduction copy{};
  copy.target[copy.targets++] = to;
  copy.source[copy.sources++] = from;
  copy.bytes = bytes;
  launches_.copy(copy, Launches::blocks_for(copy.bytes, options_.reducer_ctas), stream);
}

}  // namespace lanecast::ipc
