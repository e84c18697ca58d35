// SPDX-License-Identifier: Apache-2.0
// A collective by copy engines: while one chunk is on its way to a peer's staging memory, the one before is copied from
// there to its place, or reduced by a small kernel. Nothing that moves data waits: one-block kernels do, in between.
//
//   to peer q   | copy 0 | signal | copy 2 | signal | copy 4 | …   two streams take turns: between two copies of one
//               | copy 1 | signal | copy 3 | signal | copy 5 | …   the link would be idle for microseconds
//   credits     |                   wait for q to empty the slot of chunk 4 | …
//   unpack      | wait for chunk 0 | copy or reduce | wait for chunk 1, slot 0 is empty | …
#include <algorithm>

#include "peers/peer_group.h"

namespace lanecast::peers {
namespace {

constexpr std::size_t kDepth = gpu::kDepth;
constexpr std::size_t kStagingBytes = std::size_t{32} << 20;

gpu::u64 slot_bit(int q, std::size_t chunk) {
  return gpu::u64{1} << (static_cast<std::size_t>(q) * kDepth + chunk % kDepth);
}

}  // namespace

class CopyPipeline {
 public:
  CopyPipeline(PeerGroup& group, const PeerCall& call, gpu::Stream stream)
      : group_(group),
        memory_(group.memory_),
        staging_(*group.staging_),
        device_(*group.device_),
        call_(call),
        stream_(stream),
        unpack_(group.engines_.unpack()),
        me_(group.rank()),
        members_(group.size()),
        chunk_(chunk_bytes()) {}

  /// Chunk by chunk: nothing that a chunk waits for is enqueued behind it, so that even a device with one queue for
  /// all streams (CUDA_DEVICE_MAX_CONNECTIONS=1) gets on.
  void run() {
    // Everyone has come, so everyone has ended the call before: staging memory is free, and no credit is outstanding.
    group_.barrier(call_.signature, stream_);
    group_.engines_.fork(stream_);
    const Parcels& parcels = call_.parcels;
    const Parcel& own = parcels.receive[me_];
    // Beside the rest: on the unpacking stream what arrives would wait for it, and the slots would stay full.
    if (!parcels.reduces)
      group_.launches_.copy_within(own.at, parcels.send[me_].at, own.bytes, group_.cuts_.local_blocks(), stream_);
    std::size_t most = 0;
    for (int k = 1; k < members_; ++k)
      most = std::max({most, chunks(parcels.send[peer(k)]), chunks(parcels.receive[peer(k)])});
    for (std::size_t c = 0; c < most; ++c) {
      for (int k = 1; k < members_; ++k) push(c, k);
      unpack(c);
    }
    group_.engines_.join(stream_);
  }

 private:
  const gpu::Driver& driver() const { return device_.driver(); }
  void check(int result, const char* what) const { device_.check(result, what); }
  int peer(int k) const { return (me_ + k) % members_; }

  /// Equal on all members, and such that kDepth chunks from each peer fit.
  std::size_t chunk_bytes() const {
    const std::size_t fits = kStagingBytes / (kDepth * static_cast<std::size_t>(members_ - 1)) / 256 * 256;
    return group_.cuts_.engine_chunk(fits);
  }
  std::size_t chunks(const Parcel& parcel) const { return (parcel.bytes + chunk_ - 1) / chunk_; }
  std::size_t bytes_of(const Parcel& parcel, std::size_t k) const {
    return std::min(chunk_, parcel.bytes - k * chunk_);
  }

  /// Where `from` leaves chunk k for `in`. A member has no slots for itself.
  gpu::Address slot(int in, int from, std::size_t k) const {
    const std::size_t place = static_cast<std::size_t>(from < in ? from : from - 1);
    return staging_.of(in) + (place * kDepth + k % kDepth) * chunk_;
  }

  /// Chunk c to the k-th peer.
  void push(std::size_t c, int k) const {
    const int q = peer(k);
    const Parcel& parcel = call_.parcels.send[q];
    const std::size_t n = chunks(parcel);
    if (c >= n) return;
    const EngineStreams& engines = group_.engines_;
    const gpu::Stream stream = engines.push(k, c % 2);
    if (c >= kDepth) {  // waited for beside the copy before, which takes no notice
      const gpu::Stream credit = engines.credit();
      group_.launches_.hand_over({group_.group(call_.signature), 0, 0, 0, slot_bit(q, c)}, credit);
      check(driver().cuEventRecord(engines.credited(), credit), "cuEventRecord");
      wait(stream, engines.credited());
    }
    copy(slot(q, me_, c), parcel.at + c * chunk_, bytes_of(parcel, c), stream);
    // In-place: what is sent is not overwritten before.
    if (call_.parcels.reduces && parcel.at == call_.parcels.receive[me_].at) {
      const gpu::Event copied = engines.pushed(k, c % 2);
      check(driver().cuEventRecord(copied, stream), "cuEventRecord");
      wait(unpack_, copied);
    }
    // The engine itself writes the semaphore: a kernel for it would come some microseconds later.
    check(driver().cuStreamWriteValue32(stream, full_at(q, c), 1, 0), "cuStreamWriteValue32");
  }

  void unpack(std::size_t c) const {
    const Parcels& parcels = call_.parcels;
    gpu::Handover h{group_.group(call_.signature), 0, 0, 0, 0};
    for (int k = 1; k < members_; ++k) {
      const int q = peer(k);
      const std::size_t n = chunks(parcels.receive[q]);
      if (c < n) h.needs_full |= slot_bit(q, c);
      if (c > 0 && c - 1 + kDepth < n) h.empties |= slot_bit(q, c - 1);
    }
    if (h.needs_full == 0) return;
    group_.launches_.hand_over(h, unpack_);
    if (parcels.reduces)
      reduce(c);
    else
      place(c);
  }

  /// This member's semaphore of a chunk, at the peer.
  gpu::Address full_at(int peer, std::size_t c) const {
    return memory_.flags(peer) + offsetof(gpu::Flags, full) + (me_ * kDepth + c % kDepth) * sizeof(gpu::u32);
  }

  void place(std::size_t c) const {
    for (int k = 1; k < members_; ++k) {
      const int q = peer(k);
      const Parcel& parcel = call_.parcels.receive[q];
      if (c >= chunks(parcel)) continue;
      group_.launches_.copy_within(parcel.at + c * chunk_, slot(me_, q, c), bytes_of(parcel, c),
                                   group_.cuts_.local_blocks(), unpack_);
    }
  }

  void reduce(std::size_t c) const {
    const Parcel& target = call_.parcels.receive[me_];
    gpu::ReductionArguments r{};
    r.targets = 1;
    r.target[0] = target.at + c * chunk_;
    r.bytes = bytes_of(target, c);
    r.divisor = call_.divisor;
    r.overrange = call_.overrange;
    r.sources = static_cast<gpu::u32>(members_);
    r.op = static_cast<gpu::u32>(call_.op);
    // In the order of the ranks, so that all get the same bits.
    for (int q = 0; q < members_; ++q)
      r.source[q] = q == me_ ? call_.parcels.send[me_].at + c * chunk_ : slot(me_, q, c);
    group_.launches_.reduce(call_.dtype, r, Launches::blocks_for(r.bytes, group_.cuts_.local_blocks()), unpack_);
  }

  void copy(gpu::Address to, gpu::Address from, std::size_t bytes, gpu::Stream stream) const {
    if (bytes != 0) check(driver().copy(to, from, bytes, stream), "cuMemcpyAsync");
  }

  void wait(gpu::Stream stream, gpu::Event event) const {
    check(driver().cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
  }

  PeerGroup& group_;
  const GroupMemory& memory_;
  const SharedMemory& staging_;
  const gpu::Device& device_;
  const PeerCall& call_;
  gpu::Stream stream_, unpack_;
  int me_, members_;
  std::size_t chunk_;
};

void PeerGroup::open_staging(const Bootstrap& members) {
  const gpu::Device::Current current(*device_);
  staging_ = std::make_unique<SharedMemory>(device_, members, kStagingBytes);
}

void PeerGroup::by_copy_engine(const PeerCall& call, gpu::Stream stream) {
  if (size() == 1) return by_kernel(call, stream);
  const gpu::Device::Current current(*device_);
  CopyPipeline(*this, call, stream).run();
}

}  // namespace lanecast::peers
