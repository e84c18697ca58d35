// SPDX-License-Identifier: Apache-2.0
#include "select/cost.h"

#include <algorithm>
#include <cmath>

namespace lanecast {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;  // large enough that α per step stays small beside the transfer
constexpr int kMaxChunks = 16;                // the model of a 4 × 4 all-reduce gains 6 % from 8 to 16, then nothing
constexpr int kMaxPipelineChunks = 64;

// Adding two values costs a core about this much; what a rank receives in a reduction it also adds.
constexpr double kReduceSecondsPerByte = 1e-10;

double transfer_s(const Cost& cost, const Load& load) {
  const double bytes_s = cost.volume * static_cast<double>(load.bytes) * load.link.beta_s_per_byte;
  if (!cost.pipelined) return cost.rounds * load.link.alpha_s + bytes_s;
  const double chunks = chunks_of_pipeline(cost, load);
  return (cost.rounds + chunks - 1) * (load.link.alpha_s + bytes_s / chunks);
}

double reduction_s(const Cost& cost, const Load& load, Kind kind) {
  const bool reduces = kind == Kind::reduce_scatter || kind == Kind::all_reduce || kind == Kind::reduce;
  return reduces ? cost.volume * static_cast<double>(load.bytes) * kReduceSecondsPerByte : 0;
}

template <class Row>
Cost cost_in(std::span<const Row> rows, std::string_view name, int ranks) {
  const Row* row = find(rows, name);
  return row ? row->cost(ranks) : Cost{};
}

}  // namespace

Cost cost_of(std::string_view name, Kind kind, int ranks) {
  switch (kind) {
    case Kind::all_reduce: {
      if (find(all_reduce_rows(), name)) return cost_in(all_reduce_rows(), name, ranks);
      Cost both = cost_in(all_gather_rows(), name, ranks);
      both.rounds *= 2;
      both.volume *= 2;
      return both;
    }
    case Kind::broadcast:
    case Kind::reduce:
      return cost_in(broadcast_rows(), name, ranks);
    case Kind::gather:
    case Kind::scatter:
      return cost_in(scatter_rows(), name, ranks);
    case Kind::all_to_all:
      return cost_in(all_to_all_rows(), name, ranks);
    default:
      return cost_in(all_gather_rows(), name, ranks);
  }
}

double flat_s(std::string_view name, const Load& load, Kind kind) {
  const Cost cost = cost_of(name, kind, load.ranks);
  // An all-reduce adds in its first half only, but for those that have a form of their own.
  const bool half = kind == Kind::all_reduce && !find(all_reduce_rows(), name);
  return transfer_s(cost, load) + reduction_s(cost, load, kind) / (half ? 2 : 1);
}

double gather_s(std::string_view name, const Load& load, Kind kind) {
  const BroadcastRow* row = find(broadcast_rows(), name);
  const Cost cost = row ? row->gather_cost(load.ranks) : Cost{};
  return transfer_s(cost, load) + reduction_s(cost, load, kind);
}

double stripes_s(const Load& load) { return transfer_s(cost_in(scatter_rows(), "binomial", load.ranks), load); }

int chunks_of_pipeline(const Cost& cost, const Load& load) {
  if (!cost.pipelined || load.link.alpha_s <= 0) return 1;
  const double bytes_s = cost.volume * static_cast<double>(load.bytes) * load.link.beta_s_per_byte;
  const double balanced = std::sqrt(std::max(0.0, cost.rounds - 1) * bytes_s / load.link.alpha_s);
  return std::clamp(static_cast<int>(std::min(balanced, 1e6)), 1, kMaxPipelineChunks);
}

int chunks_of_hierarchy(std::size_t bytes) {
  return static_cast<int>(std::clamp<std::size_t>(bytes / kChunkBytes, 1, kMaxChunks));
}

std::vector<int> largest_groups(const Topology& topology) {
  const auto levels = topology.group_sizes();
  std::vector<int> largest;
  largest.reserve(levels.size());
  for (const auto& sizes : levels) largest.push_back(static_cast<int>(*std::max_element(sizes.begin(), sizes.end())));
  return largest;
}

}  // namespace lanecast
