// SPDX-License-Identifier: Apache-2.0
// A GPU that nobody has measured, or several kinds on one host. Times and cuts are those of the kind that was, H100 and
// H200: which way is ahead depends on the ratios of such times, and no result does. What would hold a faster link back
// is left out. `lanecast tune --device cuda` replaces the times.
#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10, kMiB = std::size_t{1} << 20;

}  // namespace

constexpr GpuKind kUnknownGpu{
    .names = {},
    .times = {.first_bytes = 16 * kMiB,
              .kernel = {7.3e-6, 1 / 340e9, 0.6e-12},
              .copy_engine = {35e-6, 1 / 303e9},
              .two_shot = {12e-6, 1 / 330e9},
              .two_shot_by_few = {12e-6, 1 / 341e9},
              .two_shot_pumped = {42e-6, 1 / 365e9},
              .spread = {15e-6, 1 / 260e9},
              .direct_copy = {7.5e-6, 1 / 355e9},
              .direct_messages = {20e-6, 1 / 355e9},
              .direct_reduction = {8.6e-6, 1 / 324e9},
              .direct_all_reduce_by_few = {8.6e-6, 1 / 345e9}},
    .slots = {.long_bytes = 1 * kMiB,
              .short_blocks = 32,
              .block_bytes = 4 * kKiB,
              .longest_piece = 128 * kKiB,
              .few_reduce = 24,
              .whole_bytes = 128 * kKiB,
              .short_bytes = 512 * kKiB,
              .short_piece = 64 * kKiB,
              .least_pieces = 4},
    .two_shots = {.piece = 64 * kKiB,
                  .broadcast_piece = 32 * kKiB,
                  .few_blocks = 16,
                  .pumped_by_few = 16 * kMiB,
                  .pumped = 64 * kMiB,
                  .pumped_pieces = 128 * kKiB,
                  .pumped_blocks = 24,
                  .link_bytes_per_s = 0,
                  .link_of_several_bytes_per_s = 0},
    .direct = {.all_reduce_blocks = 24,
               .blocks_beside_engines = 16,
               .by_engines = 16 * kMiB,
               .by_engines_apart = 64 * kMiB,
               .least_offer = 512 * kKiB,
               .engine_chunk_bytes = 8 * kMiB},
    .between_hosts = {.reduce_s_per_byte = 3 / 1.5e12, .host_copy_s_per_byte = 1 / 13.6e9, .reducer_blocks = 32},
    .program_lane_bytes = 8 * kKiB,
    .local_blocks = 64,
};

}  // namespace lanecast
