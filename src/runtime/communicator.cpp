// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator.h"

#include <algorithm>

#include "runtime/agreed.h"
#include "runtime/links.h"
#include "runtime/started.h"

namespace lanecast {
namespace {

Topology topology_for(const CommunicatorOptions& options, const Surroundings& around) {
  if (options.placed) {
    if (options.placed->size() != around.bootstrap.size)
      throw UsageError("topology " + options.placed->str() + " describes " + std::to_string(options.placed->size()) +
                       " ranks, but there are " + std::to_string(around.bootstrap.size));
    return *options.placed;
  }
  if (!options.topology.empty()) return Topology::parse(options.topology, around.bootstrap.size);
  return Topology::from_hosts(around.hosts);
}

/// Everything that the user asks for and that does not depend on what the transports find; the topology is placed.
CommunicatorOptions settled(CommunicatorOptions options, const Surroundings& around) {
  if (options.from_environment) apply_environment(options);
  check(options);
  options.placed = topology_for(options, around);
  return options;
}

}  // namespace

Communicator::Communicator(Surroundings surroundings, CommunicatorOptions options,
                           std::shared_ptr<ProgressThread> progress)
    : around_(std::move(surroundings)),
      options_(agreed(around_.bootstrap, [&] { return settled(std::move(options), around_); })),
      topology_(options_.placed.value_or(Topology(around_.bootstrap.size))),
      router_(connect(around_, topology_, options_.transports)),
      progress_(std::move(progress)),
      plans_(std::make_unique<PlanCache>(topology_, around_.bootstrap.rank, *router_, options_.executor)) {
  Links links = gather_links(around_, topology_, *router_);
  links_ = std::move(links.by_level);
  crowded_ = links.crowded;
}

Communicator::~Communicator() {
  progress_->remove(*this);
  if (!started_.empty()) fail({FailureKind::user, "the communicator was destroyed while calls were under way"});
  // MPI cannot recall a message under way and may write to its buffers until the process ends: they stay.
  if (failure_ && around_.mpi) static_cast<void>(plans_.release());
}

bool Communicator::in_rank_order(const Call& call) const {
  const bool sums = Collective{call.kind}.reduces();
  if (!sums || !call.reproducible.value_or(options_.reproducible.value_or(false))) return false;
  // Our own kernels give integers the same bits in every order; of floats, min and max take -0 and 0 for equal.
  const std::string_view pinned = call.algorithm.empty() ? std::string_view(options_.algorithm) : call.algorithm;
  return is_float(call.dtype) || pinned.find("native") != std::string_view::npos;
}

Choice Communicator::chosen(const Call& call) const {
  std::string_view pinned = call.algorithm.empty() ? std::string_view(options_.algorithm) : call.algorithm;
  const bool reproducible = in_rank_order(call);
  // What is pinned for every call gathers finished parts, which only an all-reduce has.
  if (reproducible && call.kind != Kind::all_reduce) pinned = call.algorithm;
  const Request request{call.kind, full_bytes(call, size()), links_, call.own_counts(), reproducible};
  Choice choice;
  if (pinned.empty())
    choice = choose(request, topology_);
  else
    choice = {std::string(pinned), choose_chunks(request, topology_, std::string(pinned)), 0};
  choice.chunks = std::max(choice.chunks, least_chunks(request, topology_, choice.algorithm));
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  if (chunks) choice.chunks = chunks;
  return choice;
}

std::shared_ptr<Execution> Communicator::prepare(Call call, std::unique_lock<std::mutex>& lock) {
  const bool in_place = check(call, rank(), size());
  call.reproducible = in_rank_order(call);
  refuse_if_failed();
  if (auto known = plans_->find(call, in_place)) return known;
  try {
    return plans_->make(call, in_place, chosen(call), [&] { drain(lock); });
  } catch (const UsageError& error) {  // planning knows no rank
    throw UsageError("rank " + std::to_string(rank()) + ": " + std::string(name_of(call.kind)) + ": " + error.what());
  }
}

void Communicator::run(const Call& call, const Interrupt& interrupt) {
  {
    std::unique_lock lock(mutex_);
    if (started_.empty()) {
      const auto execution = prepare(call, lock);
      ++calls_;
      execution->start(static_cast<const std::byte*>(call.in), static_cast<std::byte*>(call.out));
      return drive(*execution, interrupt);
    }
  }
  const auto work = start(call);
  try {
    wait(*work, interrupt);
  } catch (const std::exception& error) {
    if (!work->done()) {  // interrupted: the caller's buffers must not be touched any more
      const std::lock_guard lock(mutex_);
      fail(failure_of(error));
    }
    throw;
  }
}

}  // namespace lanecast
