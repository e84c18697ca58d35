// SPDX-License-Identifier: Apache-2.0
// Collectives on symmetric memory by kernels that read and write at the peers themselves, between two meetings of all
// ranks: before, since the peers' memory has to be ready, and after, since it is read and written. Block b meets the
// blocks b of the others only: a rank's kernel ends when all of its blocks have met. What lies between may also be copy
// engines' work, with a kernel for each meeting, and on one rank so and on another otherwise.
#pragma once

#include "device/gpu/kernels/handover.cuh"
#include "device/gpu/kernels/memory.cuh"
#include "device/gpu/kernels/offers.cuh"

namespace lanecast::gpu {

/// A rank's blocks from one meeting to the next, all threads of a block alike.
class Meetings {
 public:
  __device__ explicit Meetings(const GroupArguments& g) : g_(g), control_(reinterpret_cast<Control*>(g.control)) {
    __shared__ u64 past;
    __shared__ u32 lost;
    if (threadIdx.x == 0) {
      past = control_->meetings;
      lost = peek(&control_->failed);
    }
    __syncthreads();
    past_ = past;
    lost_ = &lost;
  }

  /// To how many meetings the kernel goes, said once and by all blocks.
  __device__ void count(u32 meetings) {
    // By a thread beside those that wait for the peers.
    if (threadIdx.x == blockDim.x - 1 && comes_last(control_)) control_->meetings += meetings;
  }

  /// The first of so many, before this kernel has written anything. What the others' earlier kernels have written is
  /// seen after it, as those have ended; so nothing has to be published here, which would take a microsecond.
  __device__ bool begin(u32 meetings) {
    return meet([](u64* flag, u64 value) { post(flag, value); }, [&] { count(meetings); });
  }

  /// What the others' blocks have written before they came is seen after it. False where a wait of this block has
  /// failed: then nobody may take its part for done.
  __device__ bool next() {
    return meet([](u64* flag, u64 value) { release(flag, value); }, [] {});
  }

 private:
  /// Between telling the others, say(flag, value), and their coming a thread beside those that wait does `meanwhile`.
  template <class Say, class Meanwhile>
  __device__ bool meet(Say say, Meanwhile meanwhile) {
    const bool lost = *lost_ != 0;
    sync_block();  // all threads have written what release() publishes, and have seen whether all is lost
    meanwhile();
    if (lost) return false;
    ++past_;
    const u32 q = threadIdx.x;
    if (q < g_.ranks && q != g_.rank) {
      say(&flags_of(g_, q)->met[g_.rank][blockIdx.x], past_ << 16 | g_.signature);
      if (!wait_for_count(waiter_of(g_), &flags_of(g_, g_.rank)->met[q][blockIdx.x], q, past_)) *lost_ = 1;
    }
    __syncthreads();  // and what one thread has acquired, all may read
    return *lost_ == 0;
  }

  const GroupArguments& g_;
  Control* control_;
  u64 past_;
  u32* lost_;  // of the block
};

/// move(work): by all threads of the grid.
template <class Move>
__device__ inline void direct(const Direct& d, Move move) {
  Meetings meetings(d.group);
  if (d.offering.windows) {
    __shared__ ReductionArguments work;
    const bool taken = accept(d, work);
    meetings.count(taken ? 1 : 0);
    if (taken) {
      move(work);
      meetings.next();
    }
    tell_of_offer(d, taken);
    return;
  }
  if (meetings.begin(2)) {
    move(d.work);
    meetings.next();
  }
}

}  // namespace lanecast::gpu
