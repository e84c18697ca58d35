// SPDX-License-Identifier: Apache-2.0
// Waits for other ranks' kernels. Each has a deadline, and the first that passes it says who waited for whom.
#pragma once

#include "device/gpu/kernels/primitives.cuh"

namespace lanecast::gpu {

struct WaitContext {
  u32 rank, signature;
  u64 timeout_ns;
  Control* control;
  FaultRecord* record;
};

__device__ inline void report(const WaitContext& waiter, const FaultRecord& fault, Fault what) {
  if (atomicCAS(&waiter.control->failed, 0u, 1u) != 0) return;  // somebody has reported before
  FaultRecord* const record = waiter.record;
  record->rank = waiter.rank;
  record->signature = waiter.signature;
  record->peer = fault.peer;
  record->call = fault.call;
  record->round = fault.round;
  record->found = fault.found;
  record->place = fault.place;
  record->bytes = fault.bytes;
  record->found_bytes = fault.found_bytes;
  __threadfence_system();  // the host looks at `fault` first
  *static_cast<volatile u32*>(&record->fault) = static_cast<u32>(what);
}

/// How a thread waits that others of its GPU share the memory with.
enum class Wakefulness {
  eager,
  /// Naps between looks, longer ones the longer it waits. Looks of many blocks, at the host's memory and also at the
  /// GPU's, keep back copies that other processes' engines make from it, as NICs do: between two H200s 500 KB took
  /// 1.5 ms instead of 10 us while 64 blocks waited.
  drowsy,
  /// As long ones from the first look on: for what comes while enough else is under way.
  asleep,
};

/// After so many looks, of about a microsecond each; a nap is a twentieth of the wait so far, at most.
constexpr u32 kLooksAwake = 8, kNapGrows_ns = 128, kLongestNap_ns = 4096;
/// Looks of a few blocks keep nothing back, so what counts is how many blocks of the launch look in any time.
constexpr u32 kNapOfBlock_ns = 256;
__device__ inline u32 longest_nap_ns() { return min(gridDim.x * kNapOfBlock_ns, kLongestNap_ns); }

/// Looks between two at the host's memory, and by how many each block is ahead of the next one. When all threads of 64
/// blocks read there at once it took them 100 us, as long as 256 eager looks: so a rank that had waited came late, its
/// peer waited for it, and so on. See decision 0078.
constexpr u32 kLooksBetween = 256, kEagerLooksBetween = 4096;
__device__ inline u32 first_look(u32 between) { return blockIdx.x * (between / (2 * kMostBlocks)); }

/// Behind so many words of a block in a row, release() serves better than let_go(): composed reduce-scatters of 256 MiB
/// on two H200s took 420 us with fences, 467 without, those of 1 MiB 14.3 and 12.9. See also release_in_flow().
constexpr u32 kFewInRow = 4;

/// Spins until come(value of the word) says so; false after a failure, also another thread's.
template <class Word, class Come>
__device__ inline bool wait_for(const WaitContext& waiter, const Word* word, const FaultRecord& place, Come come,
                                Wakefulness how = Wakefulness::eager) {
  u64 deadline = 0;
  const u32 between = how == Wakefulness::eager ? kEagerLooksBetween : kLooksBetween, first = first_look(between);
  for (u32 spins = 0;; ++spins) {
    // Who naps may look at the host's memory, where reading once more takes longer than an acquire each time.
    const bool orders = how != Wakefulness::eager || spins == 0;
    const Word value = orders ? acquire(word) : peek(word);
    if (come(value)) {
      if (!orders) acquire(word);  // read again, so that what it publishes is seen: what has come stays, or grows
      return true;
    }
    if (how == Wakefulness::asleep)
      nap(longest_nap_ns());
    else if (how == Wakefulness::drowsy && spins > kLooksAwake)
      nap(min((spins - kLooksAwake) * kNapGrows_ns, longest_nap_ns()));
    if (spins % kLooksBetween == kLooksBetween - 1 && peek(&waiter.control->failed)) return false;
    if ((spins + first) % between != between - 1) continue;
    // Both at once: each is a microsecond away, in the host's memory.
    const u32 poison = peek(&waiter.record->poison);
    const u64 ran_ns = peek(&waiter.record->ran_ns);
    if (poison != 0) {
      atomicCAS(&waiter.control->failed, 0u, 1u);  // so that what is enqueued behind does not wait, either
      return false;
    }
    if (deadline == 0) {
      deadline = ran_ns + waiter.timeout_ns;
    } else if (ran_ns > deadline) {
      report(waiter, place, Fault::timeout);
      return false;
    }
  }
}

// Of threads that go through rounds together: a wait of theirs has failed, so they do nothing any more, and nobody may
// hear that they had. Told to the threads beyond the next barrier.
__device__ inline void halt(u32& halted) { atomicAdd(&halted, 1u); }
__device__ inline bool goes_on(const u32& halted) { return look(&halted) == 0; }

/// By one thread of each block: true on the last of them. A block comes here when it has read what that one changes,
/// not when it ends, where everyone would wait for the count.
__device__ inline bool comes_last(Control* control) {
  if (atomicAdd(&control->come, 1u) + 1 != gridDim.x) return false;
  control->come = 0;
  return true;
}

}  // namespace lanecast::gpu
