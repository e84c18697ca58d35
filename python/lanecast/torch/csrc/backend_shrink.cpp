// SPDX-License-Identifier: Apache-2.0
// A group of those ranks that are left when others are lost.
#include <gil.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "backend.h"

namespace lanecast_torch {
namespace {

constexpr int kShrinkAbort = 1;  // torch.distributed's SHRINK_ABORT

bool has(const std::vector<std::int64_t>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

BackendPtr Backend::shrink(const std::vector<std::int64_t>& excluded, int flags,
                           const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const lanecast::WithoutGil unlocked;
  std::string left_out;
  std::vector<int> staying;
  int rank = 0;
  for (int each = 0; each < getSize(); ++each) {
    if (has(excluded, each)) {
      left_out += "/" + std::to_string(each);
      continue;
    }
    if (each < getRank()) ++rank;
    staying.push_back(each);
  }
  const int size = static_cast<int>(staying.size());
  TORCH_CHECK_VALUE(!has(excluded, getRank()), "lanecast: shrink: rank ", getRank(), " leaves itself out: only those ",
                    "that stay call it");
  if (flags & kShrinkAbort)
    for (const auto& engine : engines()) engine->abort("the process group is made again without ranks that are lost");
  auto options = options_of_child(opts);
  options->take_part(getSize(), staying);
  if (const auto given = c10::dynamic_intrusive_pointer_cast<Options>(opts)) {
    const auto of_job = std::exchange(options, c10::make_intrusive<Options>(*given));
    options->take_findings(*options_);
    options->job_size = of_job->job_size;
    options->job_ranks = of_job->job_ranks;
  }
  // Over the store, as nobody can tell what those who are lost have left half done in the group's calls.
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "lanecast/shrunk" + left_out + "/" + std::to_string(shrinks_[left_out]++), store_);
  auto engine = std::make_unique<Engine>(StoreBootstrap(store, rank, size, options->timeout), rank, size, *options);
  return c10::make_intrusive<Backend>(Group{store, rank, size}, std::move(engine), options, helpers_);
}

}  // namespace lanecast_torch
