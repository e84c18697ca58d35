// SPDX-License-Identifier: Apache-2.0
// Interprets a program: a plan that was proven, bound to a shape. What an instruction means stands in
// program_arguments.h.
//
// Either queue of a lane has threads that move data and a warp beside them. The warp decodes an instruction and waits
// for what it needs, the threads work, and the warp says what is done. While they work it looks whether the next
// instruction may begin, and hands it over at once if so. If not, it first says what has been done and then waits:
// whoever is waited for may be waiting for that word.
//
// All waits point backwards in one order of instructions that all ranks share, so rings of any length that holds the
// longest message do. Source: docs/explanation/decisions/0056-programs.md.
#pragma once

#include "device/gpu/kernels/lane.cuh"

namespace lanecast::gpu {

/// One of a lane's queues: 0 puts, 1 takes, copies and reduces. A round is an instruction in a tick.
template <class Format, int kQueue>
class ProgramQueue {
 public:
  static constexpr int kMovers = kQueue == 0 ? kPutters : kTakers;

  __device__ ProgramQueue(const ProgramRun& x, u64 program)
      : x_(x),
        lane_(lane_memory()),
        all_(reinterpret_cast<const Instruction*>(program)),
        operands_(reinterpret_cast<const Operand*>(all_ + x.puts + x.takes)),
        carried_(reinterpret_cast<const CarriedMessage*>(operands_ + x.operands)),
        count_(kQueue == 0 ? x.puts : x.takes),
        rounds_(count_ * x.ticks),
        waiter_(waiter_of(x)) {}

  /// By the threads that move data.
  __device__ void work(Team team) {
#pragma unroll 1
    for (u32 k = 0; k < rounds_; ++k) {
      sync(kBegin + k % 2, kMovers + kWarp);  // what one thread has acquired, all may read
      const ProgramRound& round = lane_.round[kQueue][k % 2];
      if (goes_on(lane_.halted)) {
#pragma unroll 1
        for (u32 r = 0; r < round.runs; ++r)
          if (kQueue == 1 && (round.operation == Operation::take_reduce || round.operation == Operation::reduce))
            reduce_bytes<Format>(team, round.run[r]);
          else
            copy_bytes(team, round.run[r].target[0], round.run[r].source[0], round.run[r].bytes);
      }
      arrive(kEnd + k % 2, kMovers + kWarp);
    }
  }

  /// By the warp beside them, of which one thread does everything. All come to the same barriers together: a machine
  /// counts warps there.
  __device__ void direct() {
    const bool leads = threadIdx.x % kWarp == 0;
    Round last{}, next{};
#pragma unroll 1
    for (u32 k = 0; k <= rounds_; ++k) {
      const bool more = k < rounds_;
      if (more && leads) {
        next = decode(k);
        lane_.begun[kQueue][k % 2] = k > 0 && may_begin(next);
      }
      sync(kTurn, kWarp);
      const bool begun = more && lane_.begun[kQueue][k % 2] != 0;
      if (begun) arrive(kBegin + k % 2, kMovers + kWarp);
      if (k > 0) {
        sync(kEnd + (k - 1) % 2, kMovers + kWarp);  // all threads have read, and written what end() publishes
        if (leads) end(last, k);
      }
      if (more && !begun) {
        if (leads) begin(next);
        arrive(kBegin + k % 2, kMovers + kWarp);
      }
      last = next;
    }
  }

 private:
  // Names of barriers. Two each, since those who only arrive may be a round ahead of those who wait.
  static constexpr int kBegin = 1 + 5 * kQueue, kEnd = 3 + 5 * kQueue, kTurn = 5 + 5 * kQueue;  // the warp's own

  /// What the leading thread knows of a round.
  struct Round {
    const Instruction* what;
    u32 tick, chunk;
    u64 bytes;   // of the instruction; none where the slice is empty, or the tick has no such chunk
    u64 end;     // put, take: where it ends in the ring, counted as LaneMemory::moved
    bool says;   // to the peer or the proxy, when it is done
    bool hears;  // from the proxy, for all lanes of its channel
  };

  __device__ bool talks(const Round& r) const { return r.what->operation <= Operation::take_reduce; }
  __device__ static bool is_carried(const Round& r) { return r.what->carried != 0; }
  __device__ bool puts(const Round& r) const { return r.what->operation == Operation::put; }
  __device__ ProgramFlags* flags(u32 rank) const { return reinterpret_cast<ProgramFlags*>(x_.flags[rank]); }

  struct Run {
    u64 at, bytes;
  };
  __device__ Run run(const Operand& o, u32 chunk) const {
    const u64 number = u64{chunk} * gridDim.x + blockIdx.x, begin = number * o.stride;
    if (begin >= o.bytes) return {0, 0};
    const u64 slice = min(o.stride, o.bytes - begin), from = place(o, o.from, slice);
    u64 at = x_.base[static_cast<u32>(o.space)] + o.base + from;
    if (o.space == Space::scratch)
      at += (blockIdx.x * x_.generations + chunk % x_.generations) * x_.scratch_bytes - place(o, o.slot_from, slice);
    else
      at += begin;
    return {at, place(o, o.to, slice) - from};
  }

  /// Fills the round's memory, which the round two before has left.
  __device__ Round decode(u32 k) {
    const u32 tick = k / count_;
    const Instruction& what = all_[(kQueue == 0 ? 0 : x_.puts) + k % count_];
    ProgramRound& round = lane_.round[kQueue][k % 2];
    Round r{&what, tick, tick - what.delay, 0, 0, false, false};
    round.operation = what.operation;
    round.runs = 0;
    if (tick < what.delay || r.chunk >= x_.chunks) return r;
    r.hears = is_carried(r) && blockIdx.x % (gridDim.x / x_.channels) == 0;
    u64& moved = lane_.moved[kQueue][what.peer];
    const u64 begin = is_carried(r) ? 0 : moved;
    if (talks(r) && !in_message_) {
      at_ = begin;
      in_message_ = true;
    }
    const bool from_ring = what.operation == Operation::take || what.operation == Operation::take_reduce;
    const u32 each = (puts(r) ? 0 : 1) + what.sources - (from_ring ? 1 : 0);
#pragma unroll 1
    for (u32 q = 0; q < what.runs; ++q) {
      const Operand* const o = operands_ + what.operands + q * each;
      const Run first = run(o[0], r.chunk);
      if (first.bytes == 0) continue;
      r.bytes += first.bytes;
      ReductionArguments& to = round.run[round.runs++];
      to.bytes = first.bytes;
      to.targets = 1;
      to.sources = what.sources;
      to.op = what.op;
      to.divisor = what.divisor;
      to.overrange = what.overrange;
      if (puts(r))
        to.source[0] = first.at;
      else
        to.target[0] = first.at;
      for (u32 s = 1; s < each; ++s) to.source[s - 1] = run(o[s], r.chunk).at;
      if (is_carried(r))
        through_slot(r, to);
      else if (talks(r))
        through_ring(what, round, to);
    }
    r.end = at_;
    if (talks(r) && what.ends) {
      in_message_ = false;
      r.says = at_ != begin;  // an empty message is none
      if (!is_carried(r)) moved = grains(at_) * kRingGrain;
    }
    return r;
  }

  /// The side of a run that lies in a message which the proxy carries.
  __device__ void through_slot(const Round& r, ReductionArguments& run) {
    const CarriedMessage& message = carried_[r.what->carried - 1];
    const u64 share = u64{r.chunk % message.slots} * gridDim.x + blockIdx.x;
    (kQueue == 0 ? run.target[0] : run.source[r.what->sources - 1]) =
        x_.slots[message.on_host] + message.place + share * message.lane_bytes + at_;
    at_ += run.bytes;
  }

  /// The side of a run that lies in a ring, which may cut it in two.
  __device__ void through_ring(const Instruction& what, ProgramRound& round, ReductionArguments& run) {
    const u64 in_ring = at_ % x_.ring_bytes, fits = x_.ring_bytes - in_ring;
    const u64 ring = (kQueue == 0 ? x_.ring_to : x_.ring_from)[what.peer] + blockIdx.x * x_.ring_bytes;
    u64& side = kQueue == 0 ? run.target[0] : run.source[what.sources - 1];
    side = ring + in_ring;
    at_ += run.bytes;
    if (run.bytes <= fits) return;
    ReductionArguments& rest = round.run[round.runs++];
    rest = run;
    run.bytes = fits;
    rest.bytes -= fits;
    (kQueue == 0 ? rest.target[0] : rest.source[what.sources - 1]) = ring;
    if (kQueue == 0) {
      rest.source[0] += fits;
    } else {
      rest.target[0] += fits;
      if (what.sources > 1) rest.source[0] += fits;
    }
  }

  __device__ FaultRecord where(const Round& r) const {
    FaultRecord at{};
    at.peer = r.what->peer;
    at.place = static_cast<u32>(WaitKind::program);
    at.call = r.chunk;
    at.round = r.what->step;
    return at;
  }

  // What an instruction waits for. Of this lane's other queue:

  __device__ u32 needed(const Round& r) const {
    const u32 others = kQueue == 0 ? x_.takes : x_.puts, delays = x_.ticks - x_.chunks;
    u32 rounds = r.what->needs == 0 ? 0 : (r.tick - r.what->needs_back) * others + r.what->needs;
    if (r.what->writes_scratch && r.chunk >= x_.generations)
      rounds = max(rounds, (r.chunk - x_.generations + delays + 1) * others);
    return rounds;
  }
  __device__ bool has_ended(u32 rounds) const {
    return rounds == 0 || static_cast<int>(told(&lane_.ended[1 - kQueue]) - rounds) >= 0;
  }

  // Of the peer, or of the proxy: that there is room, or what is to be taken. A channel's first lane asks the host's
  // memory, also where it has no share itself, and passes on what it has heard: polls by many lanes held up the copies
  // of other processes by a factor of ten (two H200s, 64 pollers).

  __device__ static bool waits(const Round& r) { return r.bytes != 0 || r.hears; }
  __device__ u32 number(const Round& r) const {
    return (r.what->carried - 1) * x_.channels + blockIdx.x / (gridDim.x / x_.channels);
  }
  __device__ u64* heard(const Round& r) const { return reinterpret_cast<u64*>(x_.heard) + number(r); }
  __device__ const u64* word(const Round& r) const {
    if (is_carried(r)) return r.hears ? reinterpret_cast<const u64*>(x_.told) + number(r) : heard(r);
    const ProgramFlags* const own = flags(x_.rank);
    return kQueue == 0 ? &own->emptied[r.what->peer][blockIdx.x] : &own->arrived[r.what->peer][blockIdx.x];
  }
  __device__ bool lets_begin(const Round& r, u64 value) const {
    if (is_carried(r)) {
      const u32 count = static_cast<u32>(value);
      const int since = static_cast<int>(static_cast<u32>(value >> 32) - lane_.epoch);
      if (since != 0) return since > 0;  // a later launch's: the proxy is through with this one, so no share is here
      return kQueue == 0 ? r.chunk < count + carried_[r.what->carried - 1].slots : r.chunk < count;
    }
    if (kQueue == 0 && r.end <= x_.ring_bytes) return true;  // as the memory was made
    // Of a launch before: a peer that put more then than was taken has put nothing of this one yet.
    if (kQueue == 1 && static_cast<short>(static_cast<u32>(value >> 16) - lane_.launch) < 0) return false;
    const u32 least = static_cast<u32>(grains(kQueue == 0 ? r.end - x_.ring_bytes : r.end));
    return static_cast<int>(static_cast<u32>(value >> 32) - least) >= 0;
  }
  /// Does the word come from a launch of this number, and of another program or behind other bytes, now or before?
  __device__ bool differs(const Round& r, u64 value) const {
    return kQueue == 1 && !is_carried(r) && static_cast<u32>(value >> 16 & 0xffff) == lane_.launch &&
           (value & 0xffff) != lane_.agreed[kQueue][r.what->peer];
  }

  __device__ bool may_begin(const Round& r) {
    if (!waits(r) || !goes_on(lane_.halted)) return true;
    if (!has_ended(needed(r))) return false;
    if (!talks(r)) return true;
    const u64 value = peek(word(r));
    if (!lets_begin(r, value) || differs(r, value)) return false;
    if (kQueue == 1) acquire(word(r));  // so that what it publishes is seen
    if (r.hears) pass_on(heard(r), value);
    return true;
  }

  /// Until it may; after a failure there is nothing to wait for.
  __device__ void begin(const Round& r) {
    if (!waits(r)) return;
    const u32 rounds = needed(r);
    while (!has_ended(rounds))
      if (!goes_on(lane_.halted)) return;
    if (!talks(r) || !goes_on(lane_.halted)) return;
    FaultRecord at = where(r);
    bool other = false;
    u64 last = 0;
    const auto lets = [&](u64 value) {
      last = value;
      other = differs(r, value);
      if (!other) return lets_begin(r, value);
      at.found = static_cast<u32>(value & 0xffff);
      report(waiter_, at, Fault::mismatch);
      return true;
    };
    const bool between_hosts = x_.begun != 0;
    const bool came = wait_for(waiter_, word(r), at, lets, between_hosts ? Wakefulness::drowsy : Wakefulness::eager);
    if (!came || other)
      halt(lane_.halted);
    else if (r.hears)
      pass_on(heard(r), last);
  }

  /// A round is done, the k-th, from 1.
  __device__ void end(const Round& r, u32 k) const {
    if (r.says && is_carried(r) && goes_on(lane_.halted)) {
      // Release at the system's scope: the proxy and its NIC see the share; or the NIC may write over it.
      const u64 which = u64{r.what->carried - 1} * gridDim.x + blockIdx.x;
      release(reinterpret_cast<u64*>(x_.says) + which, u64{lane_.epoch} << 32 | (r.chunk + 1));
    } else if (r.says && goes_on(lane_.halted)) {
      const u64 value = grains(r.end) << 32 | u64{lane_.launch} << 16 | lane_.agreed[kQueue][r.what->peer];
      ProgramFlags* const peers = flags(r.what->peer);
      release(kQueue == 0 ? &peers->arrived[x_.rank][blockIdx.x] : &peers->emptied[x_.rank][blockIdx.x], value);
    }
    tell(&lane_.ended[kQueue], k);
  }

  const ProgramRun& x_;
  LaneMemory& lane_;
  const Instruction* all_;
  const Operand* operands_;
  const CarriedMessage* carried_;
  u32 count_, rounds_;
  WaitContext waiter_;
  // Of the message that is being decoded.
  bool in_message_ = false;
  u64 at_ = 0;
};

template <class Format>
__device__ inline void run_program(const ProgramRun& x) {
  const u64 bytes =
      (x.puts + x.takes) * sizeof(Instruction) + x.operands * sizeof(Operand) + x.carried * sizeof(CarriedMessage);
  begin_lane(x, bytes);
  LaneMemory& lane = lane_memory();
  if (lane.idle != 0) return;
  const u64 program = bytes <= kProgramBytes ? reinterpret_cast<u64>(lane.program) : x.program;
  ProgramQueue<Format, 0> putting(x, program);
  ProgramQueue<Format, 1> taking(x, program);
  if (threadIdx.x < kPutters)
    putting.work({threadIdx.x, kPutters});
  else if (threadIdx.x < kPutters + kTakers)
    taking.work({threadIdx.x - kPutters, kTakers});
  else if (threadIdx.x < kPutters + kTakers + kWarp)
    putting.direct();
  else
    taking.direct();
  __syncthreads();
  end_lane(x);
}

}  // namespace lanecast::gpu
