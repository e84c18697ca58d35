// SPDX-License-Identifier: Apache-2.0
// One row per algorithm: tests, benchmark, documentation and selector read this table and nothing else.
#include <bit>
#include <cmath>

#include "algorithms/algorithms.h"

namespace lanecast {
namespace {

bool any(int) { return true; }
bool power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

double rounds_log2(int n) { return std::ceil(std::log2(n)); }
double shared(int n) { return (n - 1.0) / n; }

constexpr AllGatherRow kAllGathers[] = {
    {"ring", ring, any, [](int n) { return Cost{n - 1.0, shared(n)}; }, "PCCL, IV-B"},
    {"recursive_doubling", recursive_doubling, power_of_two, [](int n) { return Cost{rounds_log2(n), shared(n)}; },
     "PCCL, IV-B"},
    {"bruck", bruck, any, [](int n) { return Cost{rounds_log2(n), shared(n)}; }, "Bruck et al."},
    {"direct", direct, any, [](int n) { return Cost{std::max(1.0, 0.3 * (n - 1)), shared(n)}; }, "HiCCL, III"},
    {"native", native_all_gather, any, [](int n) { return Cost{rounds_log2(n), shared(n)}; }, "the transport's own"},
};

constexpr AllReduceRow kAllReduces[] = {
    {"folding", folding,
     [](int n) { return Cost{std::floor(std::log2(n)) + (power_of_two(n) ? 0 : 2), rounds_log2(n)}; }, "Thakur et al."},
    {"one_shot", one_shot, [](int n) { return Cost{std::max(1.0, 0.3 * (n - 1)), n - 1.0}; }, "peer-memory libraries"},
    {"native", native_all_reduce, [](int n) { return Cost{2 * rounds_log2(n), 2 * shared(n)}; }, "the transport's own"},
};

}  // namespace

std::span<const AllGatherRow> all_gather_rows() { return kAllGathers; }
std::span<const AllReduceRow> all_reduce_rows() { return kAllReduces; }

}  // namespace lanecast
