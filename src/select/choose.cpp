// SPDX-License-Identifier: Apache-2.0
#include "select/choose.h"

#include <algorithm>

#include "select/cost.h"

namespace lanecast {
namespace {

constexpr std::size_t kScratchBytes = 8 << 20;  // of a chunk of a reproducible sum; a few chunks are in flight

bool is_native(const std::string& algorithm) { return algorithm.find("native") != std::string::npos; }

/// What two or more groups of a level share: a lane of N nodes with M ranks each carries 1/M of a gathered buffer.
std::size_t part_of(std::size_t bytes, double ranks_inside) {
  return static_cast<std::size_t>(static_cast<double>(bytes) / std::max(1.0, ranks_inside));
}

double predict_hierarchical(const Request& request, const Topology& topology, const std::string& algorithm) {
  const std::vector<int> sizes = largest_groups(topology);
  const bool rooted = request.kind == Kind::broadcast || request.kind == Kind::reduce;
  std::size_t begin = algorithm.find('(') + 1;
  double total = 0;
  double inside = topology.size();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const std::size_t end = algorithm.find_first_of(",)", begin);
    const std::string name = algorithm.substr(begin, end - begin);
    inside /= sizes[k];
    begin = end + 1;
    const Load load{request.kind == Kind::all_to_all ? request.bytes : part_of(request.bytes, inside), sizes[k],
                    request.links[k]};
    // The vector's stripes come down to the ranks of the root's node before they cross, and are gathered behind that.
    if (rooted && k == 0) total += stripes_s({request.bytes, static_cast<int>(inside), request.links.back()});
    if (sizes[k] > 1) total += rooted && k > 0 ? gather_s(name, load, request.kind) : flat_s(name, load, request.kind);
  }
  return total;
}

}  // namespace

double predict(const Request& request, const Topology& topology, const std::string& algorithm) {
  if (request.reproducible && algorithm != "one_shot") {
    // One exchange between all pairs; then an all-reduce gathers by the algorithm.
    const double exchange =
        flat_s("direct", {request.bytes, topology.size(), request.links.front()}, Kind::reduce_scatter);
    if (request.kind != Kind::all_reduce) return exchange;
    return exchange + predict({Kind::all_gather, request.bytes, request.links}, topology, algorithm);
  }
  if (is_hierarchical(algorithm)) return predict_hierarchical(request, topology, algorithm);
  return flat_s(algorithm, {request.bytes, topology.size(), request.links.front()}, request.kind);
}

int choose_chunks(const Request& request, const Topology& topology, const std::string& algorithm) {
  if (is_hierarchical(algorithm)) return chunks_of_hierarchy(request.bytes);
  const Load load{request.bytes, topology.size(), request.links.front()};
  return chunks_of_pipeline(cost_of(algorithm, request.kind, topology.size()), load);
}

int least_chunks(const Request& request, const Topology& topology, const std::string& algorithm) {
  if (!request.reproducible) return 1;
  const std::size_t scratch = request.bytes * (algorithm == "one_shot" ? topology.size() - 1 : 1);
  return static_cast<int>(std::clamp<std::size_t>(scratch / kScratchBytes, 1, INT32_MAX));
}

Choice choose(const Request& request, const Topology& topology) {
  Choice best;
  for (const std::string& algorithm : algorithms_for(request.kind, topology, request.reproducible)) {
    if (is_native(algorithm) || (request.own_counts && forwards(request.kind, algorithm))) continue;
    const double time = predict(request, topology, algorithm);
    if (best.algorithm.empty() || time < best.seconds) best = {algorithm, 1, time};
  }
  best.chunks = choose_chunks(request, topology, best.algorithm);
  return best;
}

}  // namespace lanecast
