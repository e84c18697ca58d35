// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/communicator.h"

#include <algorithm>

#include "runtime/communicator/started.h"
#include "runtime/wires/links.h"

namespace lanecast {

Communicator::Communicator(Surroundings surroundings, CommunicatorOptions options,
                           std::shared_ptr<ProgressThread> progress)
    : ground_(std::move(surroundings), std::move(options), std::move(progress)),
      gate_(ground_),
      failing_(ground_, gate_),
      agreement_(*ground_.router, rank(), ground_.id, ground_.options.check_calls),
      choosing_(ground_.topology, ground_.options, *ground_.router),
      plans_(std::make_unique<PlanCache>(ground_.topology, rank(), *ground_.router, ground_.options.executor)),
      timeout_s_(ground_.options.timeout_s.value_or(kTimeout_s)),
      tokens_(static_cast<std::size_t>(size())) {
  failing_.also_ends([this](const std::exception_ptr& error) { end_started(error); });
  Links links = gather_links(ground_.around, ground_.topology, *ground_.router);
  Models models;
  models.links = std::move(links.by_level);
  models.overlaps = std::move(links.overlaps);
  if (const LinkPolicy policy = link_policy_from(ground_.options.links);
      policy.way == LinkPolicy::Way::given && hosts() > 1) {
    replace_links(models.links, links.between_hosts, policy);
    models.overlaps = overlaps_between_hosts(models.links[0]);
  }
  choosing_.know_between_hosts(std::move(links.between_hosts));
  choosing_.choose_by(std::move(models));
  if (links.crowded) ground_.share_cores();
  if (ground_.options.trace_steps) ground_.router->record(&ground_.log);
  if (ground_.options.device >= 0) failing_.opens(gpu_ = open_gpu(ground_.options.device));
}

Communicator::~Communicator() {
  if (!ground_.process.here()) {
    leave_to_parent();
    return;
  }
  finish_on_gpu();
  ground_.progress->remove(*this);
  const bool sends = std::ranges::any_of(batches_, [](const auto& batch) { return !batch->finished(); });
  if (!started_.empty() || sends)
    failing_.fail({FailureKind::user, "the communicator was destroyed while calls were under way"});
  ground_.progress->remove(*this);  // which failing_.fail() has handed it again, where a peer is yet to be told
  if (!gate_.failure()) ground_.keep_trace();
  // MPI cannot recall a message under way and may write to its buffers until the process ends: they stay.
  if (gate_.failure() && ground_.around.mpi) static_cast<void>(plans_.release());
}

void Communicator::leave_to_parent() {
  const auto keep = []<class T>(T& held) { static_cast<void>(new T(std::move(held))); };
  keep(plans_), keep(ground_.router), keep(ground_.around), keep(ground_.progress), keep(gpu_), keep(started_),
      keep(batches_);
}

std::string Communicator::transport_to(int peer) const {
  if (peer < 0 || peer >= size() || peer == rank())
    throw UsageError("peer: rank " + std::to_string(rank()) + " has no peer " + std::to_string(peer));
  return std::string(ground_.router->to(peer).name());
}

void Communicator::check_timeout(double timeout_s) const {
  if (!(timeout_s > 0)) throw UsageError("rank " + std::to_string(rank()) + ": timeout_s: must be more than 0");
}

void Communicator::set_timeout(double timeout_s) {
  check_timeout(timeout_s);
  const std::unique_lock lock = gate_.enter();
  timeout_s_ = timeout_s;
}

std::shared_ptr<Execution> Communicator::prepare(Call call) {
  const bool in_place = check(call, rank(), size());
  call.reproducible = choosing_.in_rank_order(call);
  gate_.refuse_if_failed();
  if (auto known = plans_->find(call, in_place)) return known;
  try {
    const Choice choice = chosen(call);
    const auto make = [&] { return plans_->make(call, in_place, choice); };
    // Planning judges the algorithm, and what a call asks for was judged before.
    auto made = call.algorithm.empty() ? naming("LANECAST_ALGORITHM", ground_.options, make) : make();
    if ((choice.measured || choice.timed) && choice.decided_by != Decider::pinned && call.chunks == 0 &&
        ground_.options.chunks == 0 && !call.is_barrier)
      made->expectation() = Surprises::expecting(choice.seconds);
    return made;
  } catch (const UsageError& error) {  // planning knows no rank
    throw UsageError("rank " + std::to_string(rank()) + ": " + std::string(name_of(call.kind)) + ": " + error.what());
  }
}

void Communicator::run(const Call& call, const Interrupt& interrupt) {
  {
    const std::unique_lock lock = gate_.enter(interrupt);
    if (started_.empty()) return run_now(prepare(call), call.in, call.out, interrupt);
  }
  wait_or_fail(*start(call, interrupt), interrupt);
}

}  // namespace lanecast
