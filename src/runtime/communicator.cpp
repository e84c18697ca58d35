// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator.h"

#include <algorithm>
#include <array>
#include <thread>

#include "runtime/agreed.h"

namespace lanecast {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookEvery = std::chrono::milliseconds(20);

// How a rank learns from Transport::lost() what made its peer give up, and that it was a deadline.
constexpr std::string_view kHasAborted = "has aborted: ";
constexpr std::string_view kTimeout = "timeout: ";

/// Orders of magnitude, until the machine is measured: they decide between few rounds and few bytes.
Link link_of(std::string_view transport) {
  if (transport == "mpi") return {20e-6, 1 / 1e9};
  return {1e-6, 1 / 5e9};
}

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

struct Communicator::Started {
  std::shared_ptr<Execution> execution;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  bool running = false;
  Clock::time_point last_progress;
  std::shared_ptr<Work> work = std::make_shared<Work>();
};

Communicator::Communicator(Surroundings surroundings, CommunicatorOptions options,
                           std::shared_ptr<ProgressThread> progress)
    : around_(std::move(surroundings)),
      options_(agreed(around_.bootstrap, [&] { return settled(std::move(options), around_); })),
      topology_(options_.placed.value_or(Topology(around_.bootstrap.size))),
      router_(connect(around_, topology_, options_.transports)),
      progress_(std::move(progress)),
      plans_(std::make_unique<PlanCache>(topology_, around_.bootstrap.rank, *router_, options_.executor)) {
  // What enters a choice has to be equal everywhere: the slowest link that any rank sees at each level.
  struct Seen {
    std::array<Link, 8> links{};
    int crowded = 0;
  };
  Seen mine;
  const int levels = topology_.levels() + 1;
  if (levels > static_cast<int>(mine.links.size())) throw UsageError("topology: at most 7 levels");
  int neighbours = 0;
  for (int peer = 0; peer < size(); ++peer) {
    if (around_.hosts[peer] == around_.hosts[rank()]) ++neighbours;
    if (peer == rank()) continue;
    Link& link = mine.links[topology_.parting_level(rank(), peer)];
    link = std::max(link, link_of(router_->to(peer).name()), [](Link a, Link b) { return a.alpha_s < b.alpha_s; });
  }
  mine.crowded = neighbours > static_cast<int>(std::thread::hardware_concurrency());
  std::vector<Seen> all(size());
  around_.bootstrap.all_gather(&mine, all.data(), sizeof mine);
  links_.resize(levels);
  for (const Seen& seen : all)
    for (int k = 0; k < levels; ++k)
      links_[k] = std::max(links_[k], seen.links[k], [](Link a, Link b) { return a.alpha_s < b.alpha_s; });
  crowded_ = mine.crowded != 0;
}

Communicator::~Communicator() {
  progress_->remove(*this);
  if (!started_.empty()) fail("the communicator was destroyed while calls were under way");
  // MPI cannot recall a message under way and may write to its buffers until the process ends: they stay.
  if (!failure_.empty() && around_.mpi) static_cast<void>(plans_.release());
}

Choice Communicator::chosen(const Call& call) const {
  const std::string_view pinned = call.algorithm.empty() ? std::string_view(options_.algorithm) : call.algorithm;
  const Request request{call.kind, full_bytes(call, size()), links_, call.own_counts()};
  Choice choice;
  if (pinned.empty())
    choice = choose(request, topology_);
  else
    choice = {std::string(pinned), choose_chunks(request, topology_, std::string(pinned)), 0};
  const int chunks = call.chunks ? call.chunks : options_.chunks;
  if (chunks) choice.chunks = chunks;
  return choice;
}

std::shared_ptr<Execution> Communicator::prepare(const Call& call, std::unique_lock<std::mutex>& lock) {
  const bool in_place = check(call, rank(), size());
  refuse_if_failed();
  if (auto known = plans_->find(call, in_place)) return known;
  try {
    return plans_->make(call, in_place, chosen(call), [&] { drain(lock); });
  } catch (const UsageError& error) {  // planning knows no rank
    throw UsageError("rank " + std::to_string(rank()) + ": " + std::string(name_of(call.kind)) + ": " + error.what());
  }
}

void Communicator::drain(std::unique_lock<std::mutex>& lock) {
  while (!started_.empty()) {
    const auto last = started_.back()->work;
    lock.unlock();
    last->wait_done();
    lock.lock();
  }
  refuse_if_failed();
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
      fail(error.what());
    }
    throw;
  }
}

void Communicator::drive(Execution& execution, const Interrupt& interrupt) {
  Patience patience(crowded_);
  try {
    Clock::time_point last_progress = last_look_ = Clock::now();  // a short call never stops to look
    bool moved = false;
    while (!execution.finished()) {
      if (execution.advance()) {
        moved = true;
        patience.reset();
      } else if (patience.pause()) {
        if (std::exchange(moved, false)) last_progress = Clock::now();
        look_around(execution, last_progress, interrupt);
      }
    }
  } catch (const std::exception& error) {
    fail(error.what());
    throw;
  }
}

void Communicator::look_around(const Execution& execution, Clock::time_point last_progress,
                               const Interrupt& interrupt) {
  const auto now = Clock::now();
  if (now - last_look_ < kLookEvery) return;
  last_look_ = now;
  if (interrupt) interrupt();
  for (int peer : execution.awaited_peers())
    if (const std::string why = router_->to(peer).lost(peer); !why.empty()) give_up(execution, peer, why);
  const double waited_s = std::chrono::duration<double>(now - last_progress).count();
  if (waited_s < options_.timeout_s) return;
  std::string peers;
  for (int peer : execution.awaited_peers()) peers += (peers.empty() ? "" : ", ") + std::to_string(peer);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", waited_s);
  const std::string text = "rank " + std::to_string(rank()) + " waited " + seconds + " s for rank " + peers + " in " +
                           describe_wait(execution, -1) + "; is that rank alive, and has it made the same call?";
  cause_ = std::string(kTimeout) + text;
  throw TimeoutError(text);
}

void Communicator::give_up(const Execution& execution, int peer, const std::string& why) {
  const std::string text = "rank " + std::to_string(rank()) + " lost rank " + std::to_string(peer) + " (" + why +
                           ") in " + describe_wait(execution, peer);
  // A peer that gave up has said why: that is the cause here as well, and what others should hear from this rank.
  const std::size_t said = why.find(kHasAborted);
  if (said == std::string::npos) throw TransportError(text);
  cause_ = why.substr(said + kHasAborted.size());
  if (cause_.starts_with(kTimeout)) throw TimeoutError(text);
  throw TransportError(text);
}

std::string Communicator::describe_wait(const Execution& execution, int peer) const {
  return execution.waiting_for(peer) + ", of " + std::string(name_of(execution.plan().collective.kind)) + " by " +
         execution.plan().algorithm + " over " + router_->str() + " (call " + std::to_string(calls_) + ")";
}

void Communicator::fail(const std::string& why) {
  failure_ = why;
  router_->abort(cause_.empty() ? why : cause_);
  const auto error = std::make_exception_ptr(TransportError("the communicator has failed: " + why));
  for (auto& call : started_) call->work->finish(error);
  started_.clear();
}

void Communicator::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) fail(why);
}

void Communicator::refuse_if_failed() const {
  if (!failure_.empty())
    throw TransportError("rank " + std::to_string(rank()) + ": this communicator has failed and takes no more calls; " +
                         "make a new one. It failed because: " + failure_);
}

std::shared_ptr<Work> Communicator::start(const Call& call) {
  std::shared_ptr<Work> work;
  {
    std::unique_lock lock(mutex_);
    if (const std::string why = threads_refused(around_); !why.empty())
      throw UsageError("rank " + std::to_string(rank()) + ": an asynchronous call " + why);
    auto started = std::make_unique<Started>();
    started->execution = prepare(call, lock);
    started->in = static_cast<const std::byte*>(call.in);
    started->out = static_cast<std::byte*>(call.out);
    work = started->work;
    started_.push_back(std::move(started));
  }
  progress_->add(*this);
  return work;
}

void Communicator::wait(Work& work, const Interrupt& interrupt) {
  while (!work.wait_for(kLookEvery))
    if (interrupt) interrupt();
}

bool Communicator::has_started() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || !started_.empty();
}

bool Communicator::advance_started() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // a caller inside run() must not hold up other communicators
  if (!lock.owns_lock() || started_.empty()) return false;
  Started& call = *started_.front();
  try {
    bool moved = true;
    if (!call.running) {
      ++calls_;
      call.running = true;
      last_look_ = Clock::now();
      call.execution->start(call.in, call.out);
    } else {
      moved = call.execution->advance();
    }
    if (moved)
      call.last_progress = Clock::now();
    else
      look_around(*call.execution, call.last_progress, {});
    if (call.execution->finished()) {
      call.work->finish(nullptr);
      started_.pop_front();
    }
    return moved;
  } catch (const std::exception& error) {
    const auto why = std::current_exception();
    call.work->finish(why);
    started_.pop_front();
    fail(error.what());
    return true;
  }
}

}  // namespace lanecast
