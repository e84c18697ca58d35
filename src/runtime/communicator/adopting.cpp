// SPDX-License-Identifier: Apache-2.0
// Rank 0's models become those of all ranks.
#include "runtime/communicator/models_in_bytes.h"
#include "runtime/communicator/parts.h"
#include "runtime/communicator/settling_links.h"
#include "runtime/gpu/gpu_executor.h"

namespace lanecast {

void Communicator::adopt(const Models& models, const std::string& refusal, const Interrupt& interrupt) {
  Ground& ground = parts_->ground;
  Choosing& choosing = parts_->choosing;
  const Gate::Lock lock = parts_->gate.enter(interrupt);
  parts_->gate.refuse_if_failed();
  if (!parts_->calls.empty()) throw UsageError("models: wait for the started calls of this communicator first");
  // Rank 0 tells each of the others by itself: were all to exchange, each pair of a host would open its lanes for it.
  const auto told = [&](int peer, const std::string& mine) {
    return parts_->waits
        .among({.ranks = {0, peer},
                .what = "a profile for all ranks",
                .meanwhile = [&](auto...) { parts_->gate.ask(interrupt); }})
        .all_gather_strings(mine)[0];
  };
  const auto packed = [&] {
    if (!refusal.empty()) throw UsageError(refusal);
    if (models.links.empty()) return std::string();
    if (models.links.size() != choosing.models().links.size())
      throw UsageError("models: have links for " + std::to_string(models.links.size()) + " levels, topology " +
                       ground.topology.str() + " has " + std::to_string(choosing.models().links.size()));
    return bytes_of(models);
  };
  constexpr char kModels = '+', kRefusal = '-';
  std::string known;
  if (rank() == 0) {
    try {
      known = kModels + packed();
    } catch (const UsageError& error) {
      known = kRefusal + std::string(error.what());
    }
    for (int peer = 1; peer < size(); ++peer) told(peer, known);
  } else {
    known = told(rank(), {});
  }
  const bool refused = known.front() == kRefusal;
  known.erase(0, 1);
  if (refused) throw UsageError(rank() == 0 ? known : "rank 0 refuses: " + known);
  Models adopted = known.empty() ? choosing.models() : models_from(known);
  for (std::size_t level = 0; level < adopted.links.size(); ++level)
    adopted.links[level].traits = choosing.models().links[level].traits;
  GpuExecutor* const gpu = parts_->gpu.opened();
  const TimingSite site{
      ground.router, ground.topology, ground.around.hosts, rank(), parts_->waits.timeout_s(), ground.rivals, [&] {
        parts_->gate.ask(interrupt);
      }};
  const bool are_timed = settle_links(site, choosing, adopted);
  if (known.empty() && !are_timed) return;
  if (gpu) gpu->choose_by(adopted);
  choosing.choose_by(std::move(adopted));
  parts_->binding.forget_plans();
  if (!gpu || !gpu->between_hosts()) return;
  settle_gpu_links(site, choosing, *gpu);
  gpu->between_hosts()->network_is(choosing.network(GpuCalls::on_gpus(*gpu)));
}

}  // namespace lanecast
