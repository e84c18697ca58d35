// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/communicator.h"

#include <algorithm>
#include <random>
#include <set>

#include "base/agreed.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/shown.h"
#include "runtime/communicator/started.h"
#include "runtime/request/equal_options.h"
#include "runtime/request/part_of_job.h"
#include "runtime/wires/links.h"

namespace lanecast {
namespace {

Topology topology_for(const CommunicatorOptions& options, const Surroundings& around) {
  if (options.placed) {
    if (options.placed->size() != around.bootstrap.size)
      throw UsageError("topology " + options.placed->str() + " describes " + std::to_string(options.placed->size()) +
                       " ranks, but there are " + std::to_string(around.bootstrap.size));
    return *options.placed;
  }
  if (!options.topology.empty())
    return naming("LANECAST_TOPOLOGY", options,
                  [&] { return Topology::parse(options.topology, around.bootstrap.size); });
  return Topology::from_hosts(around.hosts);
}

/// Everything that the user asks for and that does not depend on what the transports find; the topology is placed.
CommunicatorOptions settled(CommunicatorOptions options, const Surroundings& around) {
  if (options.from_environment) apply_environment(options);
  check(options);
  if (!options.timeout_s) options.timeout_s = kTimeout_s;
  if (options.part) fit_to_part(options, *options.part, around.hosts);
  const Topology& here = options.placed.emplace(topology_for(options, around));
  if (options.part) leave_aside_what_does_not_fit(options, here);
  return options;
}

std::uint64_t common_id(const Bootstrap& bootstrap) {
  std::random_device random;
  const std::uint64_t mine = (std::uint64_t{random()} << 32) | random();
  std::vector<std::uint64_t> all(bootstrap.size);
  bootstrap.all_gather(&mine, all.data(), sizeof mine);
  return all[0];
}

}  // namespace

Communicator::Communicator(Surroundings surroundings, CommunicatorOptions options,
                           std::shared_ptr<ProgressThread> progress)
    : around_(std::move(surroundings)),
      options_(equal_on_all(around_.bootstrap,
                            agreed(around_.bootstrap, [&] { return settled(std::move(options), around_); }))),
      topology_(options_.placed.value_or(Topology(around_.bootstrap.size))),
      id_(common_id(around_.bootstrap)),
      router_(naming("LANECAST_TRANSPORTS", options_,
                     [&] {
                       return connect(around_, topology_,
                                      {.transports = options_.transports,
                                       .ucx_lanes = options_.ucx_lanes,
                                       .gpu_nics = options_.gpu_nics,
                                       .on_gpus = options_.gpu_messages == kDirectMessages});
                     })),
      log_(options_.trace_steps),
      agreement_(*router_, around_.bootstrap.rank, id_, options_.check_calls),
      choosing_(topology_, options_, *router_),
      progress_(std::move(progress)),
      plans_(std::make_unique<PlanCache>(topology_, around_.bootstrap.rank, *router_, options_.executor)),
      timeout_s_(options_.timeout_s.value_or(kTimeout_s)),
      tokens_(static_cast<std::size_t>(around_.bootstrap.size)),
      shown_(std::make_unique<Shown>(around_.bootstrap.rank, router_, log_, timeout_s_)) {
  Links links = gather_links(around_, topology_, *router_);
  Models models;
  models.links = std::move(links.by_level);
  models.overlaps = std::move(links.overlaps);
  if (const LinkPolicy policy = link_policy_from(options_.links); policy.way == LinkPolicy::Way::given && hosts() > 1) {
    replace_links(models.links, links.between_hosts, policy);
    models.overlaps = overlaps_between_hosts(models.links[0]);
  }
  choosing_.know_between_hosts(std::move(links.between_hosts));
  choosing_.choose_by(std::move(models));
  if (links.crowded) share_cores();
  if (options_.trace_steps) router_->record(&log_);
  if (options_.device >= 0) shown_->opens(gpu_ = open_gpu(options_.device));
}

Communicator::~Communicator() {
  if (!process_.here()) {
    leave_to_parent();
    return;
  }
  finish_on_gpu();
  progress_->remove(*this);
  const bool sends = std::ranges::any_of(batches_, [](const auto& batch) { return !batch->finished(); });
  if (!started_.empty() || sends)
    fail({FailureKind::user, "the communicator was destroyed while calls were under way"});
  progress_->remove(*this);  // which fail() has handed it again, where a peer is yet to be told
  if (!failure_) keep_trace();
  // MPI cannot recall a message under way and may write to its buffers until the process ends: they stay.
  if (failure_ && around_.mpi) static_cast<void>(plans_.release());
}

void Communicator::leave_to_parent() {
  const auto keep = []<class T>(T& held) { static_cast<void>(new T(std::move(held))); };
  keep(plans_), keep(router_), keep(around_), keep(progress_), keep(gpu_), keep(started_), keep(batches_), keep(shown_);
}

std::string Communicator::transport_to(int peer) const {
  if (peer < 0 || peer >= size() || peer == rank())
    throw UsageError("peer: rank " + std::to_string(rank()) + " has no peer " + std::to_string(peer));
  return std::string(router_->to(peer).name());
}

void Communicator::check_timeout(double timeout_s) const {
  if (!(timeout_s > 0)) throw UsageError("rank " + std::to_string(rank()) + ": timeout_s: must be more than 0");
}

void Communicator::set_timeout(double timeout_s) {
  check_timeout(timeout_s);
  const std::unique_lock lock = enter();
  timeout_s_ = timeout_s;
}

void Communicator::share_cores() { rivals_ = hosts() > 1 ? Rivals::ranks_and_network : Rivals::ranks; }

int Communicator::hosts() const {
  return static_cast<int>(std::set<std::string>(around_.hosts.begin(), around_.hosts.end()).size());
}

std::shared_ptr<Execution> Communicator::prepare(Call call) {
  const bool in_place = check(call, rank(), size());
  call.reproducible = choosing_.in_rank_order(call);
  refuse_if_failed();
  if (auto known = plans_->find(call, in_place)) return known;
  try {
    const Choice choice = chosen(call);
    const auto make = [&] { return plans_->make(call, in_place, choice); };
    // Planning judges the algorithm, and what a call asks for was judged before.
    auto made = call.algorithm.empty() ? naming("LANECAST_ALGORITHM", options_, make) : make();
    if ((choice.measured || choice.timed) && choice.decided_by != Decider::pinned && call.chunks == 0 &&
        options_.chunks == 0 && !call.is_barrier)
      made->expectation() = Surprises::expecting(choice.seconds);
    return made;
  } catch (const UsageError& error) {  // planning knows no rank
    throw UsageError("rank " + std::to_string(rank()) + ": " + std::string(name_of(call.kind)) + ": " + error.what());
  }
}

void Communicator::begin(OrderedCall& call, const std::byte* in, std::byte* out) {
  CallRecord record = call.record();
  record.sequence = ++calls_;
  heed_at(log_.begin(record), [&] { return name_of(record.kind); });
  with_reasons(call, [&] { call.start(in, out, agreement_.begin(calls_, call.signature())); });
}

void Communicator::end(Execution& call) {
  surprises_->judge(call.expectation(), log_.end(), [&] {
    const CallRecord& record = call.record();
    return Surprise{
        .kind = record.kind, .bytes = record.bytes, .algorithm = call.plan().algorithm, .chunks = record.chunks};
  });
}

void Communicator::run_now(const std::shared_ptr<Execution>& call, const void* in, void* out,
                           const Interrupt& interrupt) {
  or_fail(call, [&] {
    begin(*call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out));
    drive(*call, interrupt);
    end(*call);
  });
}

void Communicator::run(const Call& call, const Interrupt& interrupt) {
  {
    const std::unique_lock lock = enter(interrupt);
    if (started_.empty()) return run_now(prepare(call), call.in, call.out, interrupt);
  }
  wait_or_fail(*start(call, interrupt), interrupt);
}

}  // namespace lanecast
