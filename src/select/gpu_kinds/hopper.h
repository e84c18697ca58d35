// SPDX-License-Identifier: Apache-2.0
// NVIDIA H100 (80GB HBM3) and H200, whose GPUs of a host have 18 links of NVLink 4 each: one table, since what was
// measured on one held on the other. The card that gave a number stands beside it, where that is known; the machines
// and the commands stand in docs/measurements/history/two-gpus.md and docs/measurements/history/four-gpus.md.
#pragma once

#include "select/gpu_kinds/hopper_learned.h"
#include "select/gpu_kinds/hopper_nccl.h"

namespace lanecast {
namespace gpu_kinds {

inline constexpr std::string_view kHopperNames[] = {"NVIDIA H100 80GB HBM3", "NVIDIA H200"};

inline constexpr GpuKind kHopper{
    .names = kHopperNames,
    // H200s, if not said. With few multiprocessors what an all-reduce adds, reads and writes decides, not the link,
    // of which the others keep more than this: so each byte should be reduced once, and not be copied where that is not
    // needed.
    .times = {.first_bytes = 16 * kMiB,
              .kernel = {7.3e-6, 1 / 340e9, 0.6e-12},
              .copy_engine = {35e-6, 1 / 303e9},
              .two_shot = {12e-6, 1 / 330e9},         // H100s
              .two_shot_by_few = {12e-6, 1 / 341e9},  // H100s
              .two_shot_pumped = {42e-6, 1 / 365e9},  // H100s
              .spread = {15e-6, 1 / 260e9},           // four H200s
              .collected = {28e-6, 1 / 318e9},        // four H200s
              .chain = {2e-6, 1 / 360e9},             // four H200s, as the next
              .chain_link_s = 6e-6,
              .direct_copy = {7.5e-6, 1 / 355e9},
              .direct_messages = {20e-6, 1 / 355e9},
              .direct_reduction = {8.6e-6, 1 / 324e9},
              .direct_all_reduce_by_few = {8.6e-6, 1 / 345e9},  // H100s
              .nccl_marks_s = 8e-6,                             // four H200s
              .nccl_alone_s = 30e-6},  // four H200s: broadcasts and reduces of 16 to 256 MiB took 63 to 93 us more
    .nccl = kHopperNccl,
    .learned = kHopperLearned,
    .slots = {.long_bytes = 1 * kMiB,  // H200s, as all down to few_reduce
              .short_blocks = 32,
              .block_bytes = 4 * kKiB,
              // A signal takes a block some 10 us, so where few blocks share a message that is reduced, longer pieces
              // are ahead.
              .longest_piece = 128 * kKiB,
              .few_reduce = 24,
              // H100s. In several pieces ranks send and take at once, and what is taken last is short; but each
              // costs a signal, a last one of a few bytes as well, so all are about equal.
              .whole_bytes = 128 * kKiB,
              .short_bytes = 512 * kKiB,
              .short_piece = 64 * kKiB,
              .least_pieces = 4},
    .two_shots = {.piece = 64 * kKiB,            // H100s; with 24 and 32 blocks longer ones were up to 8 % slower
                  .broadcast_piece = 32 * kKiB,  // four H200s: 64 MiB in 381 -> 264 us
                  .few_blocks = 16,              // H100s, as what follows: each piece costs a signal
                  // With few blocks ahead of threads from here on; with many about as fast, by less than half of them.
                  .pumped_by_few = 16 * kMiB,
                  .pumped = 64 * kMiB,
                  .pumped_pieces = 128 * kKiB,
                  .pumped_blocks = 24,
                  // NVLink 4 carries some 390; where several ranks send to one, held back a little more they are
                  // faster.
                  .link_bytes_per_s = 365e9,
                  .link_of_several_bytes_per_s = 350e9},
    // Four H200s.
    .chain = {.piece = 32 * kKiB, .pumped = 8 * kMiB, .pumped_blocks = 32, .pumped_piece = 96 * kKiB},
    // H100s: 16 to 32 blocks take as long, and products beside them lose half as much by 24 as by 32.
    .direct = {.all_reduce_blocks = 24,
               // As many keep up with copy engines; more slow them down.
               .blocks_beside_engines = 16,
               // H200s: 391 GB/s instead of a kernel's 362.
               .by_engines = 16 * kMiB,
               .by_engines_apart = 64 * kMiB,
               // Below, a launch and finding out where the buffers lie take longer than copies to and from slots.
               .least_offer = 16 * kMiB,
               // Less lost more by signals than it overlapped.
               .engine_chunk_bytes = 8 * kMiB},
    // Its memory has 1.5 TB/s and more, of which a sum takes two reads and a write. Copy engines and whoever moves the
    // messages share the memory of the host, which leaves each way some half of what a copy reaches by itself.
    .between_hosts = {.reduce_s_per_byte = 3 / 1.5e12, .host_copy_s_per_byte = 1 / 13.6e9},
    .program_lane_bytes = 8 * kKiB,
    .local_blocks = 64,
};

}  // namespace gpu_kinds
}  // namespace lanecast
