// SPDX-License-Identifier: Apache-2.0
// Rank 0's models become those of all ranks.
#include "runtime/communicator/communicator.h"
#include "runtime/communicator/models_in_bytes.h"
#include "runtime/communicator/settling_links.h"
#include "runtime/gpu/gpu_executor.h"

namespace lanecast {

void Communicator::adopt(const Models& models, const std::string& refusal, const Interrupt& interrupt) {
  const std::unique_lock lock = gate_.enter(interrupt);
  gate_.refuse_if_failed();
  if (!started_.empty()) throw UsageError("models: wait for the started calls of this communicator first");
  // Rank 0 tells each of the others by itself: were all to exchange, each pair of a host would open its lanes for it.
  const auto told = [&](int peer, const std::string& mine) {
    return among({.ranks = {0, peer},
                  .what = "a profile for all ranks",
                  .meanwhile = [&](auto...) { gate_.ask(interrupt); }})
        .all_gather_strings(mine)[0];
  };
  const auto packed = [&] {
    if (!refusal.empty()) throw UsageError(refusal);
    if (models.links.empty()) return std::string();
    if (models.links.size() != this->models().links.size())
      throw UsageError("models: have links for " + std::to_string(models.links.size()) + " levels, topology " +
                       ground_.topology.str() + " has " + std::to_string(this->models().links.size()));
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
  Models adopted = known.empty() ? this->models() : models_from(known);
  // What transports do is known here, and to no file.
  for (std::size_t level = 0; level < adopted.links.size(); ++level)
    adopted.links[level].by_itself = this->models().links[level].by_itself;
  const TimingSite site{ground_.router, ground_.topology, ground_.around.hosts,         rank(),
                        timeout_s_,     ground_.rivals,   [&] { gate_.ask(interrupt); }};
  const bool are_timed = settle_links(site, choosing_, adopted);
  if (known.empty() && !are_timed) return;
  if (gpu_) gpu_->choose_by(adopted.peers);
  choosing_.choose_by(std::move(adopted));
  if (gpu_) settle_gpu_links(site, choosing_, *gpu_);
  plans_ = std::make_unique<PlanCache>(ground_.topology, rank(), *ground_.router, ground_.options.executor);
  if (gpu_) gpu_->forget_plans();
}

Explanation Communicator::explain_on_gpu(const Call& call, bool symmetric) {
  const std::unique_lock lock = gate_.enter();
  if (!gpu_)
    throw UsageError("rank " + std::to_string(rank()) +
                     ": device: calls on GPUs are explained among ranks that have opened theirs; make the " +
                     "communicator with device=N");
  if (!gpu_->has_peers()) return choosing_.explain_for_gpus(call, {gpu_->sends_directly(), gpu_->has_groups()});
  return gpu_->explain(call, symmetric, choosing_.pinned_for(call));
}

std::string Communicator::kind_of_gpu() {
  const std::unique_lock lock = gate_.enter();
  return gpu_ ? gpu_->kind_of_gpu() : std::string();
}

}  // namespace lanecast
