// SPDX-License-Identifier: Apache-2.0
// Decodes the instructions of one queue of a lane, in order, tick by tick: where its runs lie, and how many bytes of
// the ring it takes. Of one thread.
#pragma once

#include "device/gpu/kernels/lane.cuh"

namespace lanecast::gpu {

/// 0: the queue that puts; 1: that which takes, copies and reduces. A round is an instruction in a tick.
template <int kQueue>
class ProgramRounds {
 public:
  __device__ ProgramRounds(const ProgramRun& x, const ProgramImage& program)
      : x_(x),
        lane_(lane_memory()),
        all_(program.instructions),
        operands_(program.operands),
        rows_(table_of(x)),
        carried_(rows_ ? carried_in(x, rows_) : program.carried),
        count_(kQueue == 0 ? x.puts : x.takes) {}

  __device__ u32 rounds() const { return count_ * (lane_.chunks + delays(x_)); }
  /// The longest one.
  __device__ static u32 delays(const ProgramRun& x) { return x.ticks - x.chunks; }

  /// What the thread knows of a round.
  struct Round {
    u32 step, carried;  // as in Instruction
    u32 chunk;
    u32 needs;  // rounds of this lane's other queue that have to have ended
    u32 end;    // put, take: where it ends in the ring, counted as RingPlace::grains
    u16 peer;   // as in Instruction
    bool talks;
    bool moves;   // has bytes; not where the slice is empty, or the tick has no such chunk
    bool joined;  // and moves
    bool says;    // to the peer or the proxy, when it is done
    bool hears;   // from the proxy, for all lanes of its channel
  };

  __device__ static bool is_carried(const Round& r) { return r.carried != 0; }
  __device__ const CarriedMessage& message(const Round& r) const { return carried_[r.carried - 1]; }

  /// The next one, the k-th; fills its memory, which the round two before has left.
  __device__ Round decode(u32 k) {
    const Instruction what = all_[(kQueue == 0 ? 0 : x_.puts) + index_];
    ProgramRound& round = lane_.round[kQueue][k % 2];
    Round r{what.step, what.carried, tick_ - what.delay, needed(what, tick_), 0, what.peer};
    const bool is_due = tick_ >= what.delay && r.chunk < lane_.chunks;
    if (++index_ == count_) {
      index_ = 0;
      ++tick_;
    }
    round.operation = what.operation;
    round.runs = 0;
    if (!is_due) return r;
    r.talks = what.operation <= Operation::take_reduce;
    r.hears = is_carried(r) && blockIdx.x % (gridDim.x / x_.channels) == 0 && r.chunk < message(r).chunks;
    RingPlace& place = lane_.ring[kQueue][what.peer].place;
    if (r.talks && !in_message_) {
      at_ = is_carried(r) ? 0 : place.at;
      bytes_ = 0;
      in_message_ = true;
    }
    const bool puts = what.operation == Operation::put;
    const bool from_ring = what.operation == Operation::take || what.operation == Operation::take_reduce;
    const u32 each = (puts ? 0 : 1) + what.sources - (from_ring ? 1 : 0);
#pragma unroll 1
    for (u32 q = 0; q < what.runs; ++q) {
      const Operand* const o = operands_ + what.operands + q * each;
      const Run first = run(o[0], r.chunk);
      if (first.bytes == 0) continue;
      r.moves = true;
      bytes_ += static_cast<u32>(first.bytes);
      ReductionArguments& to = round.run[round.runs++];
      to.bytes = first.bytes;
      to.targets = 1;
      to.sources = what.sources;
      to.op = what.op;
      to.divisor = what.divisor;
      to.overrange = what.overrange;
      if (puts)
        to.source[0] = first.at;
      else
        to.target[0] = first.at;
      for (u32 s = 1; s < each; ++s) to.source[s - 1] = run(o[s], r.chunk).at;
      if (is_carried(r))
        through_slot(r, what.sources, to);
      else if (r.talks)
        through_ring(what, round, to);
    }
    r.joined = r.moves && what.joined != 0;
    r.end = place.grains + grains(bytes_);
    if (r.talks && what.ends) {
      in_message_ = false;
      r.says = bytes_ != 0;  // an empty message is none
      if (!is_carried(r)) place = {r.end, at_from(grains(static_cast<u32>(at_)) * static_cast<u32>(kRingGrain))};
    }
    return r;
  }

 private:
  struct Run {
    u64 at, bytes;
  };
  __device__ Run run(const Operand& operand, u32 chunk) const {
    const Operand o = operand;  // all of it is under way at once
    const PartRow row = o.row ? rows_[o.row - 1] : PartRow{o.base, o.bytes, o.stride};
    const u64 number = u64{chunk} * gridDim.x + blockIdx.x, begin = number * row.stride;
    if (begin >= row.bytes) return {0, 0};
    const u64 slice = min(row.stride, row.bytes - begin), from = place(o, o.from, slice);
    u64 at = lane_.base[static_cast<u32>(o.space)] + (o.space == Space::scratch ? o.base : row.base) + from;
    if (o.space == Space::scratch)
      at += (blockIdx.x * x_.generations + chunk % x_.generations) * x_.scratch_bytes - place(o, o.slot_from, slice);
    else
      at += begin;
    return {at, place(o, o.to, slice) - from};
  }

  __device__ u32 needed(const Instruction& what, u32 tick) const {
    const u32 others = kQueue == 0 ? x_.takes : x_.puts, chunk = tick - what.delay;
    u32 rounds = what.needs == 0 ? 0 : (tick - what.needs_back) * others + what.needs;
    if (what.writes_scratch && chunk >= x_.generations)
      rounds = max(rounds, (chunk - x_.generations + delays(x_) + 1) * others);
    return rounds;
  }

  /// The side of a run that lies in a message which the proxy carries.
  __device__ void through_slot(const Round& r, u32 sources, ReductionArguments& run) {
    const CarriedMessage& here = message(r);
    const u64 share = u64{r.chunk % here.slots} * gridDim.x + blockIdx.x;
    (kQueue == 0 ? run.target[0] : run.source[sources - 1]) =
        x_.slots[here.on_host] + here.place + share * here.lane_bytes + at_;
    at_ += run.bytes;
  }

  /// The side of a run that lies in a ring, which may cut it in two.
  __device__ void through_ring(const Instruction& what, ProgramRound& round, ReductionArguments& run) {
    const u64 fits = x_.ring_bytes - at_, ring = lane_.ring[kQueue][what.peer].memory;
    u64& side = kQueue == 0 ? run.target[0] : run.source[what.sources - 1];
    side = ring + at_;
    at_ = at_from(static_cast<u32>(at_ + run.bytes));
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

  /// Of the ring: behind its end it begins anew. No message is longer than it.
  __device__ u32 at_from(u32 at) const {
    const u32 ring = static_cast<u32>(x_.ring_bytes);
    return at < ring ? at : at - ring;
  }

  const ProgramRun& x_;
  LaneMemory& lane_;
  const Instruction* all_;
  const Operand* operands_;
  PartRow* rows_;  // of counts that come with the launch; else null
  const CarriedMessage* carried_;
  u32 count_;
  u32 index_ = 0, tick_ = 0;  // of the next round
  // Of the message that is being decoded: how long it is so far, and where it goes on, in its ring or slot.
  bool in_message_ = false;
  u32 bytes_ = 0;
  u64 at_ = 0;
};

}  // namespace lanecast::gpu
