// SPDX-License-Identifier: Apache-2.0
// NCCL 2.28.9 beside our kernels among H100s and H200s of a host, without multicast. From the tables of
// docs/measurements/history: of two GPUs H100s, of four H200s. Gathers and scatters among four, and what is replayed of
// five collectives among two, nobody has timed.
#pragma once

#include "select/gpu_kinds/gpu_kind.h"

namespace lanecast::gpu_kinds {

inline constexpr std::size_t kKiB = std::size_t{1} << 10, kMiB = std::size_t{1} << 20;

inline constexpr NcclTime kHopperNccl[] = {
    {Kind::all_gather, 2, 0, 2.5, 2.4},
    {Kind::all_gather, 2, 4 * kMiB, 2.04, 2.47},
    {Kind::all_gather, 2, 16 * kMiB, 1.49, 1.95},
    {Kind::all_gather, 2, 64 * kMiB, 1.34, 1.39},
    {Kind::all_gather, 2, 1024 * kMiB, 1.26, 1.26},
    {Kind::reduce_scatter, 2, 0, 3.1, 2.0},
    {Kind::reduce_scatter, 2, 16 * kMiB, 1.40, 1.90},
    {Kind::reduce_scatter, 2, 64 * kMiB, 1.38, 1.45},
    {Kind::reduce_scatter, 2, 1024 * kMiB, 1.29, 1.29},
    {Kind::all_reduce, 2, 0, 3.0, 2.1},
    {Kind::all_reduce, 2, 4 * kMiB, 1.48, 1.96},
    {Kind::all_reduce, 2, 16 * kMiB, 1.32, 1.47},
    {Kind::all_reduce, 2, 64 * kMiB, 1.23, 1.24},
    {Kind::all_reduce, 2, 256 * kMiB, 1.15, 1.15},
    {Kind::all_reduce, 2, 1024 * kMiB, 1.09, 1.10},
    {Kind::broadcast, 2, 0, 5.6, 5.6},
    {Kind::broadcast, 2, 4 * kMiB, 3.22, 3.22},
    {Kind::broadcast, 2, 16 * kMiB, 1.12, 1.12},
    {Kind::broadcast, 2, 64 * kMiB, 0.99, 0.99},
    {Kind::broadcast, 2, 256 * kMiB, 0.96, 0.96},
    {Kind::reduce, 2, 0, 4.4, 4.4},
    {Kind::reduce, 2, 4 * kMiB, 2.83, 2.83},
    {Kind::reduce, 2, 16 * kMiB, 1.10, 1.10},
    {Kind::reduce, 2, 64 * kMiB, 0.97, 0.97},
    {Kind::reduce, 2, 256 * kMiB, 0.94, 0.94},
    {Kind::gather, 2, 0, 4.6, 4.6},
    {Kind::gather, 2, 16 * kMiB, 2.40, 2.40},
    {Kind::gather, 2, 64 * kMiB, 0.98, 0.98},
    {Kind::gather, 2, 256 * kMiB, 0.97, 0.97},
    {Kind::gather, 2, 1024 * kMiB, 1.00, 1.00},
    {Kind::scatter, 2, 0, 5.3, 5.3},
    {Kind::scatter, 2, 16 * kMiB, 2.26, 2.26},
    {Kind::scatter, 2, 64 * kMiB, 1.16, 1.16},
    {Kind::all_to_all, 2, 0, 2.3, 2.3},
    {Kind::all_to_all, 2, 16 * kMiB, 1.31, 1.31},
    {Kind::all_to_all, 2, 64 * kMiB, 1.15, 1.15},
    {Kind::all_to_all, 2, 1024 * kMiB, 1.09, 1.09},

    {Kind::all_gather, 4, 0, 1.9, 2.1},
    {Kind::all_gather, 4, 16 * kMiB, 1.24, 1.51},
    {Kind::all_gather, 4, 64 * kMiB, 1.10, 1.13},
    {Kind::all_gather, 4, 256 * kMiB, 1.05, 1.06},
    {Kind::all_gather, 4, 1024 * kMiB, 1.00, 1.01},
    {Kind::reduce_scatter, 4, 0, 1.9, 2.2},
    {Kind::reduce_scatter, 4, 16 * kMiB, 1.14, 1.45},
    {Kind::reduce_scatter, 4, 64 * kMiB, 1.09, 1.12},
    {Kind::reduce_scatter, 4, 256 * kMiB, 1.05, 1.05},
    {Kind::reduce_scatter, 4, 1024 * kMiB, 1.00, 1.01},
    {Kind::all_reduce, 4, 0, 2.2, 2.2},
    {Kind::all_reduce, 4, 1 * kMiB, 1.23, 1.63},
    {Kind::all_reduce, 4, 16 * kMiB, 1.05, 1.11},
    {Kind::all_reduce, 4, 64 * kMiB, 1.00, 1.01},
    {Kind::all_reduce, 4, 256 * kMiB, 0.99, 0.99},
    {Kind::all_reduce, 4, 1024 * kMiB, 0.979, 0.974},
    {Kind::all_reduce, 4, 0, 2.2, 2.2, true},
    {Kind::all_reduce, 4, 1 * kMiB, 1.22, 1.59, true},
    {Kind::all_reduce, 4, 16 * kMiB, 1.01, 1.07, true},
    {Kind::all_reduce, 4, 64 * kMiB, 0.976, 0.979, true},
    {Kind::all_reduce, 4, 1024 * kMiB, 0.969, 0.965, true},
    {Kind::broadcast, 4, 0, 2.4, 1.7},
    {Kind::broadcast, 4, 4 * kMiB, 1.7, 1.32},
    {Kind::broadcast, 4, 16 * kMiB, 1.01, 1.15},
    {Kind::broadcast, 4, 64 * kMiB, 1.00, 1.00},
    {Kind::reduce, 4, 0, 1.5, 1.5},
    {Kind::reduce, 4, 8 * kMiB, 0.77, 0.86},
    {Kind::reduce, 4, 64 * kMiB, 0.75, 0.75},
    {Kind::reduce, 4, 256 * kMiB, 0.86, 0.86},
    {Kind::reduce, 4, 1024 * kMiB, 0.91, 0.91},
    {Kind::all_to_all, 4, 0, 1.3, 1.5},
    {Kind::all_to_all, 4, 16 * kMiB, 1.22, 1.47},
    {Kind::all_to_all, 4, 64 * kMiB, 1.05, 1.11},
    {Kind::all_to_all, 4, 256 * kMiB, 1.01, 1.04},
    {Kind::all_to_all, 4, 1024 * kMiB, 0.96, 0.96},
};

}  // namespace lanecast::gpu_kinds
