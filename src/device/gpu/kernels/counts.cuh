// SPDX-License-Identifier: Apache-2.0
// Counts that come with a launch: each lane makes a table of them when it begins, by the rules of program_arguments.h.
#pragma once

#include "device/gpu/kernels/lane_memory.cuh"

namespace lanecast::gpu {

/// A program, in shared memory or in the GPU's.
struct ProgramImage {
  __device__ ProgramImage(const ProgramRun& x, u64 at)
      : instructions(reinterpret_cast<const Instruction*>(at)),
        operands(reinterpret_cast<const Operand*>(instructions + x.puts + x.takes)),
        carried(reinterpret_cast<const CarriedMessage*>(operands + x.operands)) {}

  const Instruction* instructions;
  const Operand* operands;
  const CarriedMessage* carried;
};

__device__ inline u64 program_bytes(const ProgramRun& x) {
  return (x.puts + x.takes) * sizeof(Instruction) + x.operands * sizeof(Operand) + x.carried * sizeof(CarriedMessage);
}
__device__ inline ProgramImage image_of(const ProgramRun& x) {
  return {x, program_bytes(x) <= kProgramBytes ? reinterpret_cast<u64>(lane_memory().program) : x.program};
}

/// Of this lane: behind the program where both fit.
__device__ inline PartRow* table_of(const ProgramRun& x) {
  if (x.counts.rows == 0) return nullptr;
  const bool fits = program_bytes(x) + x.counts.table_bytes <= kProgramBytes;
  const u64 shared = reinterpret_cast<u64>(lane_memory().program) + program_bytes(x);
  return reinterpret_cast<PartRow*>(fits ? shared : x.counts.table + blockIdx.x * x.counts.table_bytes);
}
__device__ inline CarriedMessage* carried_in(const ProgramRun& x, PartRow* table) {
  return reinterpret_cast<CarriedMessage*>(table + x.counts.rows);
}

__device__ inline void report_counts(const ProgramRun& x, u32 row, CountFault what, u64 found, u64 most) {
  FaultRecord at{};
  at.peer = x.rank;
  at.place = static_cast<u32>(WaitKind::program);
  at.call = static_cast<u32>(what);
  at.round = row;
  at.bytes = found;
  at.found_bytes = most;
  report(waiter_of(x), at, Fault::counts);
  halt(lane_memory().halted);
}

/// By all threads of a block, once the program is there.
__device__ inline void fill_table(const ProgramRun& x) {
  const CountsOfRun& counts = x.counts;
  LaneMemory& lane = lane_memory();
  const ProgramImage program = image_of(x);
  PartRow* const rows = table_of(x);
  CarriedMessage* const carried = carried_in(x, rows);
  const u32 slices = gridDim.x * x.chunks;
#pragma unroll 1
  for (u32 r = threadIdx.x; r < counts.rows; r += blockDim.x) {
    const bool is_input = r < counts.inputs;
    // Once, since the lists may lie in the host's memory.
    u64 count = reinterpret_cast<const u64*>(counts.list[is_input ? 0 : 1])[is_input ? r : r - counts.inputs];
    if (counts.told != 0 && blockIdx.x == 0) reinterpret_cast<u64*>(counts.told)[r] = count;
    if (count > counts.bound) {
      report_counts(x, r, CountFault::above_bound, count, counts.bound);
      count = 0;
    }
    rows[r].bytes = count * counts.element_bytes;
  }
  __syncthreads();
#pragma unroll 1
  for (u32 r = threadIdx.x; r < counts.rows; r += blockDim.x) {
    PartRow& row = rows[r];
    const u32 outputs_end = counts.inputs + counts.outputs;
    u64 base = 0;
#pragma unroll 1
    for (u32 k = r < counts.inputs ? 0 : r < outputs_end ? counts.inputs : r; k < r; ++k) base += rows[k].bytes;
    row.base = base;
    row.stride = counts.by_pairs ? pair_stride(row.bytes, gridDim.x) : stride_of(row.bytes, slices);
    if (counts.by_pairs) atomicMax(&lane.chunks, pair_chunks(row.bytes));
    const u64 elements = (base + row.bytes) / counts.element_bytes;
    const u64 held = counts.held[r < counts.inputs ? 0 : 1];
    if ((r + 1 == counts.inputs || r + 1 == outputs_end) && elements > held)
      report_counts(x, r, CountFault::beyond_buffer, elements, held);
    if (r + 1 == counts.own_in && row.bytes != rows[counts.own_out - 1].bytes)
      report_counts(x, r, CountFault::own_differ, row.bytes / counts.element_bytes,
                    rows[counts.own_out - 1].bytes / counts.element_bytes);
  }
  __syncthreads();
#pragma unroll 1
  for (u32 m = threadIdx.x; m < x.carried; m += blockDim.x)
    carried[m] =
        carried_now(program.carried[m], program.operands, rows, gridDim.x / x.channels, counts.by_pairs ? 0 : x.chunks);
  __syncthreads();
}

}  // namespace lanecast::gpu
