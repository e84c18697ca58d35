// SPDX-License-Identifier: Apache-2.0
// The time of one algorithm, and the number of chunks in which a program gets most out of it.
#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "algorithms/algorithms.h"
#include "base/error.h"
#include "select/choose.h"
#include "select/cost.h"
#include "select/gpu_stages.h"

namespace lanecast {
namespace {

constexpr std::size_t kScratchBytes = 8 << 20;  // of a chunk of a reproducible sum; a few chunks are in flight
constexpr int kChunkCounts[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
// Below, starting a chunk's steps costs what overlap could gain.
constexpr std::size_t kSmallestHierarchicalChunk = std::size_t{256} << 10;
constexpr std::size_t kSmallestHidingMessage = std::size_t{1} << 20;
constexpr std::size_t kSmallestChunkOnGpus = std::size_t{1} << 20;
constexpr std::size_t kSmallestPipelineChunk = std::size_t{4} << 10;

/// What two or more groups of a level share: a lane of N nodes with M ranks each carries 1/M of a gathered buffer.
std::size_t part_of(std::size_t bytes, double ranks_inside) {
  return static_cast<std::size_t>(static_cast<double>(bytes) / std::max(1.0, ranks_inside));
}

/// One per level, outermost first.
std::vector<Stage> hierarchical_stages(const Request& request, const Topology& topology, const Models& models,
                                       const std::string& algorithm) {
  const std::vector<int> sizes = largest_groups(topology);
  const bool rooted = request.kind == Kind::broadcast || request.kind == Kind::reduce;
  std::vector<Stage> found;
  std::size_t begin = algorithm.find('(') + 1;
  double inside = topology.size();
  for (int k = 0; k < static_cast<int>(sizes.size()); ++k) {
    const std::size_t end = algorithm.find_first_of(",)", begin);
    const std::string name = algorithm.substr(begin, end - begin);
    inside /= sizes[k];
    begin = end + 1;
    const Load load{request.kind, request.kind == Kind::all_to_all ? request.bytes : part_of(request.bytes, inside),
                    sizes[k], k, request.on_gpus};
    // The vector's stripes come down to the ranks of the root's node before they cross, and are gathered behind that.
    if (rooted && k == 0)
      found.push_back(
          stripes({request.kind, request.bytes, static_cast<int>(inside), topology.levels(), request.on_gpus}, models));
    if (sizes[k] <= 1) continue;
    if (request.on_gpus && name == kPeers)
      found.push_back(group_step(load, models));
    else
      found.push_back(rooted && k > 0 ? gather(name, load, models) : flat(name, load, models));
  }
  return found;
}

/// By level, how many rounds of folding have partners that part there: those of short distances stay within nodes.
/// Empty where ranks beyond a power of two take rounds of their own.
std::vector<int> folds_by_level(const Topology& topology) {
  const int n = topology.size();
  if (!std::has_single_bit(static_cast<unsigned>(n))) return {};
  std::vector<int> rounds(topology.levels() + std::size_t{1});
  for (int distance = 1; distance < n; distance *= 2) {
    int level = topology.levels();
    for (int rank = 0; rank < n; ++rank) level = std::min(level, topology.parting_level(rank, rank ^ distance));
    ++rounds[level];
  }
  return rounds;
}

/// One per level; none where folding was timed as a whole, or cannot be told apart.
std::vector<Stage> folding_stages(const Request& request, const Topology& topology, const Models& models) {
  if (models.find(request.kind, "folding", kAllRanks, request.bytes)) return {};
  const std::vector<int> rounds = folds_by_level(topology);
  std::vector<Stage> found;
  for (int k = 0; k < static_cast<int>(rounds.size()); ++k) {
    if (rounds[k] == 0) continue;
    // Each round within a host is an exchange of two GPUs, as a gathering of both vectors is.
    const bool by_peers = request.on_gpus && k == topology.levels();
    Stage stage = by_peers ? group_step({Kind::all_gather, 2 * request.bytes, 2, k, true}, models)
                           : flat("folding", {request.kind, request.bytes, 1 << rounds[k], k, request.on_gpus}, models);
    if (by_peers) {
      stage.rounds *= rounds[k];
      stage.transfer_s *= rounds[k];
    }
    found.push_back(stage);
  }
  return found;
}

/// Of an exchange of each pair: what goes to the ranks that part at a level takes that level's links. None where it was
/// timed as a whole.
std::vector<Stage> pairwise_stages(const Request& request, const Topology& topology, const Models& models) {
  if (models.find(request.kind, "pairwise", kAllRanks, request.bytes)) return {};
  const std::vector<int> sizes = largest_groups(topology);
  const std::size_t of_a_rank = request.bytes / static_cast<std::size_t>(topology.size());
  std::vector<Stage> found;
  int reached = 1;  // with this rank, from the innermost level outwards
  for (int k = topology.levels(); k >= 0; --k) {
    const int before = std::exchange(reached, k == 0 ? topology.size() : std::min(reached * sizes[k], topology.size()));
    const int ranks = reached - before + 1;
    if (ranks == 1) continue;
    const Load load{request.kind, of_a_rank * static_cast<std::size_t>(ranks), ranks, k, request.on_gpus};
    const bool by_peers = request.on_gpus && k == topology.levels();
    found.insert(found.begin(), by_peers ? group_step(load, models) : flat("pairwise", load, models));
  }
  return found;
}

std::vector<Stage> stages(const Request& request, const Topology& topology, const Models& models,
                          const std::string& algorithm) {
  const auto over_all = [&](const std::string& name, Kind kind) {
    return flat(name, {kind, request.bytes, topology.size(), kAllRanks, request.on_gpus}, models);
  };
  if (request.reproducible && algorithm != "one_shot") {
    // One exchange between all pairs; then an all-reduce gathers by the algorithm.
    std::vector<Stage> found{over_all("direct", Kind::reduce_scatter)};
    if (request.kind == Kind::all_reduce)
      std::ranges::copy(stages({Kind::all_gather, request.bytes}, topology, models, algorithm),
                        std::back_inserter(found));
    return found;
  }
  if (is_hierarchical(algorithm)) return hierarchical_stages(request, topology, models, algorithm);
  if (algorithm == "folding")
    if (std::vector<Stage> found = folding_stages(request, topology, models); !found.empty()) return found;
  if (algorithm == "pairwise" && topology.levels() > 0)
    if (std::vector<Stage> found = pairwise_stages(request, topology, models); !found.empty()) return found;
  return {over_all(algorithm, request.kind)};
}

/// Chunks that a reproducible sum needs lest its scratch, which holds all contributions, grow with the message.
int least_chunks(const Request& request, const Topology& topology, const std::string& algorithm) {
  if (!request.reproducible) return 1;
  const std::size_t scratch = request.bytes * (algorithm == "one_shot" ? topology.size() - 1 : 1);
  return static_cast<int>(std::clamp<std::size_t>(scratch / kScratchBytes, 1, INT32_MAX));
}

/// Chunk by chunk, the levels work at the same time: with full overlap, one chunk passes all of them and every further
/// one adds its time on the slowest.
double seconds_in(int chunks, const std::vector<Stage>& stages, const Overlap& overlap) {
  double sum = 0, slowest = 0;
  for (const Stage& stage : stages) {
    const double level = stage.seconds(chunks, overlap.latency);
    sum += level;
    slowest = std::max(slowest, level);
  }
  return overlap.scale * (sum - overlap.hidden * (sum - slowest) * (chunks - 1) / chunks);
}

/// Those of a call on GPUs, with what else its chunks go through.
std::vector<Stage> with_gpus(std::vector<Stage> levels, const Request& request, const Models& models) {
  std::vector<Stage> messages;
  std::ranges::copy_if(levels, std::back_inserter(messages), [](const Stage& stage) { return stage.sends > 0; });
  for (const Stage& stage : messages)
    std::ranges::copy(slot_copies(stage, request.staged, models), std::back_inserter(levels));
  // Of the level across hosts, which is seldom the faster one.
  levels[0].chunk_s += kChunkOnLanesS * std::max(1.0, levels[0].sends);
  return levels;
}

}  // namespace

Choice predict(const Request& request, const Topology& topology, const Models& models, const std::string& algorithm,
               int chunks) {
  if (models.links.size() != topology.levels() + std::size_t{1})
    throw UsageError("models: have links for " + std::to_string(models.links.size()) + " levels, topology " +
                     topology.str() + " has " + std::to_string(topology.levels() + 1));
  const bool is_flat = !is_hierarchical(algorithm);
  std::vector<Stage> levels = stages(request, topology, models, algorithm);
  Choice best{algorithm};
  best.measured = std::ranges::all_of(levels, &Stage::measured);
  const bool is_pipeline = !levels.empty() && levels[0].pipelined;
  // On GPUs chunks follow each other within a lane. So levels overlap where plans have stages, and in flat ones, whose
  // copies to and from slots are beside their messages.
  const bool overlaps = request.on_gpus && (is_flat || has_stages(topology));
  const bool hides = is_flat && !is_pipeline && !levels.empty() && (levels[0].hidden_s > 0 || overlaps);
  const bool asks = is_flat && !levels.empty() && levels[0].asking_s > 0 && levels[0].asks(1);
  // Nothing to overlap with, and nothing to spare; a rank alone has no level at all.
  const bool one_is_best =
      levels.empty() || (!is_pipeline && (request.on_gpus ? !overlaps : is_flat && !hides && !asks));
  if (request.on_gpus && !levels.empty()) levels = with_gpus(std::move(levels), request, models);
  const Overlap on_gpus{request.kind, /*hidden=*/overlaps ? 1.0 : 0.0, /*latency=*/overlaps ? 0.0 : 1.0, /*scale=*/1};
  const Overlap overlap = request.on_gpus ? on_gpus : is_flat && !hides ? Overlap{} : models.overlap(request.kind);

  const int first = chunks > 0 ? chunks : least_chunks(request, topology, algorithm);
  best.chunks = first;
  best.seconds = seconds_in(first, levels, overlap);
  for (const Stage& stage : levels) best.latency_s += stage.rounds * stage.alpha_s;
  const std::size_t smallest = request.on_gpus                    ? kSmallestChunkOnGpus
                               : is_flat && (is_pipeline || asks) ? kSmallestPipelineChunk
                               : !is_flat ? kSmallestHierarchicalChunk
                                          : kSmallestHidingMessage * static_cast<std::size_t>(topology.size());
  if (chunks > 0 || one_is_best) return best;
  double least_s = best.seconds;
  for (const int count : kChunkCounts) {
    if (count <= first) continue;
    if (request.bytes / count < smallest) break;
    const double time = seconds_in(count, levels, overlap);
    if (time >= least_s) continue;
    least_s = time;
    best.chunks = count;
  }
  // What is spared by short messages is much the same for all algorithms, and none is better for it.
  if (!asks) best.seconds = least_s;
  return best;
}

}  // namespace lanecast
