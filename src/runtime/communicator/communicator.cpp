// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/communicator.h"

#include "runtime/communicator/long_end.h"
#include "runtime/communicator/parts.h"
#include "runtime/wires/links.h"

namespace lanecast {

Communicator::Communicator(Surroundings surroundings, CommunicatorOptions options,
                           std::shared_ptr<ProgressThread> progress)
    : parts_(std::make_unique<Parts>(std::move(surroundings), std::move(options), std::move(progress))) {
  Ground& ground = parts_->ground;
  Links links = gather_links(ground.around, ground.topology, *ground.router);
  Models models;
  models.links = std::move(links.by_level);
  models.overlaps = std::move(links.overlaps);
  if (const LinkPolicy policy = link_policy_from(ground.options.links);
      policy.way == LinkPolicy::Way::given && hosts() > 1) {
    replace_links(models.links, links.between_hosts, policy);
    models.overlaps = overlaps_between_hosts(models.links[0]);
  }
  parts_->choosing.know_between_hosts(std::move(links.between_hosts));
  parts_->choosing.choose_by(std::move(models));
  if (links.crowded) ground.share_cores();
  if (ground.options.trace_steps) ground.router->record(&ground.log);
  if (ground.options.device >= 0) parts_->gpu.open_within(ground.options.device);
}

Communicator::~Communicator() {
  Ground& ground = parts_->ground;
  if (!ground.process.here()) {
    // In a forked process: what is shared with peers, or waits for a thread that has no copy here, stays untouched.
    static_cast<void>(parts_.release());
    return;
  }
  std::optional<LongEnd> waits;
  if (parts_->gpu.opened()) waits.emplace(ground.rank(), parts_->waits.timeout_s());
  parts_->gpu.finish();
  ground.progress->remove(parts_->rounds);
  if (!parts_->calls.empty() || !parts_->launched.empty() || !parts_->carried.empty() || parts_->messages.under_way())
    parts_->failing.fail({FailureKind::user, "the communicator was destroyed while calls were under way"});
  ground.progress->remove(parts_->rounds);  // which fail() has handed it again, where a peer is yet to be told
  const bool failed = static_cast<bool>(parts_->gate.failure());
  if (!failed) ground.keep_trace();
  // MPI cannot recall a message under way and may write to its buffers until the process ends: they stay.
  if (failed && ground.around.mpi) {
    parts_->binding.keep_for_good();
    parts_->gpu.keep_for_good();
  }
  parts_.reset();  // the GPU's part waits as well
}

int Communicator::rank() const { return parts_->ground.rank(); }
int Communicator::size() const { return parts_->ground.size(); }
int Communicator::hosts() const { return parts_->ground.hosts(); }
const Topology& Communicator::topology() const { return parts_->ground.topology; }
const CommunicatorOptions& Communicator::options() const { return parts_->ground.options; }
std::string Communicator::transports() const { return parts_->ground.router->str(); }
int Communicator::nics_at_once() const { return parts_->ground.router->nics_at_once(); }

std::string Communicator::transport_to(int peer) const {
  if (peer < 0 || peer >= size() || peer == rank())
    throw UsageError("peer: rank " + std::to_string(rank()) + " has no peer " + std::to_string(peer));
  return std::string(parts_->ground.router->to(peer).name());
}

GpuCalls& Communicator::gpu() { return parts_->gpu; }
const Choosing& Communicator::choosing() const { return parts_->choosing; }
std::shared_ptr<const Surprises> Communicator::surprises() const { return parts_->calls.surprises(); }

void Communicator::abort(const std::string& why) { parts_->failing.abort(why); }
void Communicator::write_trace(const std::string& directory) const { parts_->ground.write_trace(directory); }

void Communicator::set_timeout(double timeout_s) {
  parts_->waits.check_timeout(timeout_s);
  const Gate::Lock lock = parts_->gate.enter();
  parts_->waits.set_timeout(timeout_s);
}

}  // namespace lanecast
