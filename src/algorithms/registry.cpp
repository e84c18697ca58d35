// SPDX-License-Identifier: Apache-2.0
#include "algorithms/registry.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lanecast {
namespace {

bool any(int) { return true; }
bool power_of_two(int n) { return std::has_single_bit(static_cast<unsigned>(n)); }

double rounds_log2(int n) { return std::ceil(std::log2(n)); }
double shared(int n) { return (n - 1.0) / n; }
double posted_at_once(int n) { return std::max(1.0, 0.3 * (n - 1)); }  // n − 1 messages that do not wait for each other

Cost in_turn(int n) { return {n - 1.0, shared(n), false, true}; }
Cost doubling(int n) { return {rounds_log2(n), shared(n)}; }
Cost both_ways(int n) { return {2 * rounds_log2(n), 2 * shared(n)}; }
Cost at_once(int n) { return {posted_at_once(n), shared(n), false, false, 1, n - 1.0}; }

constexpr AllGatherRow kAllGathers[] = {
    {"ring", ring, any, in_turn, "PCCL, IV-B"},
    {"recursive_doubling", recursive_doubling, power_of_two, doubling, "PCCL, IV-B"},
    {"bruck", bruck, any, doubling, "Bruck et al."},
    {"direct", direct, any, at_once, "HiCCL, III"},
    {kMpi, library_all_gather, any, doubling, "MPI's own"},
    {kNccl, library_all_gather, any, doubling, "NCCL's or RCCL's own"},
    {kPeers, library_all_gather, any, doubling, "our kernels among a host's GPUs"},
};

constexpr AllReduceRow kAllReduces[] = {
    {"folding", folding, false,
     [](int n) { return Cost{std::floor(std::log2(n)) + (power_of_two(n) ? 0 : 2), rounds_log2(n)}; }, "Thakur et al."},
    {"one_shot", one_shot, true, [](int n) { return Cost{posted_at_once(n), n - 1.0, false, false, 1, n - 1.0}; },
     "peer-memory libraries"},
    {"double_tree", double_tree, false,
     [](int n) { return Cost{3 * rounds_log2(n), n > 1 ? 2.0 : 0.0, true, false, shared(n), 4}; },
     "Sanders et al., NCCL"},
    {kMpi, library_all_reduce, false, both_ways, "MPI's own"},
    {kNccl, library_all_reduce, false, both_ways, "NCCL's or RCCL's own"},
    {kPeers, library_all_reduce, false, both_ways, "our kernels among a host's GPUs"},
};

// A tree's root sends the vector in every round; a chain passes it on once. All ranks together send it n − 1 times.
Cost tree(int n) { return {rounds_log2(n), rounds_log2(n), false, false, shared(n) / std::max(1.0, rounds_log2(n))}; }
Cost chain(int n) { return {n - 1.0, n > 1 ? 1.0 : 0.0, true, true, shared(n)}; }
Cost to_everyone(int n) { return {posted_at_once(n), n - 1.0, false, false, 1.0 / n, n - 1.0, true}; }
Cost scattered(int n) {
  const double handed_out = rounds_log2(n) / 2, gathered = n - 1;  // of the vector, by all ranks
  return {rounds_log2(n) + n - 1, 2 * shared(n), false, false, (handed_out + gathered) / std::max(1.0, 2 * gathered)};
}

constexpr BroadcastRow kBroadcasts[] = {
    {"binomial", bruck, false, tree, doubling, "Thakur et al."},
    {"chain", ring, false, chain, in_turn, "HiCCL, III"},
    {"direct", direct, false, to_everyone, at_once, "HiCCL, III"},
    {"scatter_all_gather", ring, true, scattered, in_turn, "van de Geijn et al."},
    {kMpi, library_broadcast, false, [](int n) { return Cost{rounds_log2(n), 2 * shared(n)}; }, doubling, "MPI's own"},
    {kNccl, library_broadcast, false, [](int n) { return Cost{rounds_log2(n), 2 * shared(n)}; }, doubling,
     "NCCL's or RCCL's own"},
    {kPeers, library_broadcast, false, [](int n) { return Cost{rounds_log2(n), 2 * shared(n)}; }, doubling,
     "our kernels among a host's GPUs"},
};

// Only the root sends all the time.
Cost halving(int n) { return {rounds_log2(n), shared(n), false, false, rounds_log2(n) / std::max(1.0, 2.0 * (n - 1))}; }
Cost handing_out(int n) { return {posted_at_once(n), shared(n), false, false, 1.0 / n, n - 1.0, false, true}; }

constexpr ScatterRow kScatters[] = {
    {"binomial", binomial_scatter, true, halving, "Thakur et al."},
    {"direct", direct_scatter, false, handing_out, "MPICH"},
    {kMpi, library_scatter, false, doubling, "MPI's own"},
    {kNccl, library_scatter, false, doubling, "NCCL's or RCCL's own"},
    {kPeers, library_scatter, false, doubling, "our kernels among a host's GPUs"},
};

constexpr AllToAllRow kAllToAlls[] = {
    {"pairwise", pairwise, false, at_once, "Thakur et al."},
    {"bruck", bruck_all_to_all, true, [](int n) { return Cost{rounds_log2(n), rounds_log2(n) / 2}; }, "Bruck et al."},
    {kMpi, library_all_to_all, false, at_once, "MPI's own"},
    {kNccl, library_all_to_all, false, at_once, "NCCL's or RCCL's own"},
    {kPeers, library_all_to_all, false, at_once, "our kernels among a host's GPUs"},
};

}  // namespace

std::span<const AllGatherRow> all_gather_rows() { return kAllGathers; }
std::span<const AllReduceRow> all_reduce_rows() { return kAllReduces; }
std::span<const BroadcastRow> broadcast_rows() { return kBroadcasts; }
std::span<const ScatterRow> scatter_rows() { return kScatters; }
std::span<const AllToAllRow> all_to_all_rows() { return kAllToAlls; }

bool forwards(Kind kind, std::string_view algorithm) {
  const auto named = [&](const auto& rows) {
    return std::ranges::any_of(rows, [&](const auto& row) { return row.name == algorithm && row.forwards; });
  };
  if (is_hierarchical(algorithm)) return true;
  return kind == Kind::all_to_all ? named(all_to_all_rows()) : named(scatter_rows());
}

}  // namespace lanecast
