// SPDX-License-Identifier: Apache-2.0
#include "select/choose.h"

#include <algorithm>

namespace lanecast {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;  // large enough that α per step stays small beside the transfer
constexpr int kMaxChunks = 16;                // the model of a 4 × 4 all-reduce gains 6 % from 8 to 16, then nothing

const AllGatherRow* all_gather_row(std::string_view name) {
  for (const AllGatherRow& row : all_gather_rows())
    if (row.name == name) return &row;
  return nullptr;
}

// Adding two values costs a core about this much; what a rank receives in a reduction it also adds.
constexpr double kReduceSecondsPerByte = 1e-10;

double transfer(const Cost& cost, std::size_t bytes, const Link& link) {
  return cost.rounds * link.alpha_s + cost.volume * static_cast<double>(bytes) * link.beta_s_per_byte;
}

double reduction(const Cost& cost, std::size_t bytes) {
  return cost.volume * static_cast<double>(bytes) * kReduceSecondsPerByte;
}

/// An all-gather's row serves three collectives: forwards, backwards with reductions, or both.
double seconds(const AllGatherRow& row, int ranks, std::size_t bytes, const Link& link, Kind kind) {
  const Cost cost = row.cost(ranks);
  const double passes = kind == Kind::all_reduce ? 2 : 1;
  return passes * transfer(cost, bytes, link) + (kind == Kind::all_gather ? 0 : reduction(cost, bytes));
}

std::vector<int> largest_groups(const Topology& topology) {
  const auto levels = topology.group_sizes();
  std::vector<int> largest;
  largest.reserve(levels.size());
  for (const auto& sizes : levels) largest.push_back(static_cast<int>(*std::max_element(sizes.begin(), sizes.end())));
  return largest;
}

bool is_native(const std::string& algorithm) { return algorithm.find("native") != std::string::npos; }
bool is_hierarchical(const std::string& algorithm) { return algorithm.starts_with("hierarchical("); }

}  // namespace

double predict(const Request& request, const Topology& topology, const std::string& algorithm) {
  if (!is_hierarchical(algorithm)) {
    const Link& slowest = request.links.front();
    if (request.kind == Kind::all_reduce)
      for (const AllReduceRow& row : all_reduce_rows())
        if (row.name == algorithm)
          return transfer(row.cost(topology.size()), request.bytes, slowest) +
                 reduction(row.cost(topology.size()), request.bytes);
    return seconds(*all_gather_row(algorithm), topology.size(), request.bytes, slowest, request.kind);
  }
  // A level's groups share the buffer among the ranks inside them: a lane of N nodes with M ranks each carries 1/M.
  const std::vector<int> sizes = largest_groups(topology);
  std::size_t begin = algorithm.find('(') + 1;
  double total = 0;
  double inside = topology.size();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::size_t end = algorithm.find_first_of(",)", begin);
    const AllGatherRow* row = all_gather_row(algorithm.substr(begin, end - begin));
    inside /= sizes[k];
    const auto share = static_cast<std::size_t>(static_cast<double>(request.bytes) / std::max(1.0, inside));
    if (sizes[k] > 1) total += seconds(*row, sizes[k], share, request.links[k], request.kind);
    begin = end + 1;
  }
  return total;
}

int choose_chunks(const Request& request, const std::string& algorithm) {
  if (!is_hierarchical(algorithm)) return 1;
  return static_cast<int>(std::clamp<std::size_t>(request.bytes / kChunkBytes, 1, kMaxChunks));
}

Choice choose(const Request& request, const Topology& topology) {
  Choice best;
  for (const std::string& algorithm : algorithms_for(request.kind, topology)) {
    if (is_native(algorithm)) continue;
    const double time = predict(request, topology, algorithm);
    if (best.algorithm.empty() || time < best.seconds) best = {algorithm, 1, time};
  }
  best.chunks = choose_chunks(request, best.algorithm);
  return best;
}

}  // namespace lanecast
