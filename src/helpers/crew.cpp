// SPDX-License-Identifier: Apache-2.0
#include "helpers/crew.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "base/error.h"
#include "helpers/gathering.h"

namespace lanecast::helpers {
namespace {

std::size_t longest_part(const Call& call) {
  return call.counts.empty() ? call.count : *std::ranges::max_element(call.counts);
}

nlohmann::json place_of(const void* buffer, std::size_t bytes) {
  return {{"segment", -1}, {"offset", reinterpret_cast<std::uintptr_t>(buffer)}, {"bytes", bytes}};
}

/// In the order of lanecast.bound.Bound.
nlohmann::json words_of(const Call& call) {
  const nlohmann::json nothing, none = nlohmann::json::array();
  return {static_cast<int>(call.kind),
          nothing,
          nothing,
          static_cast<int>(call.dtype),
          static_cast<int>(call.op),
          call.count,
          std::vector<std::size_t>(call.counts.begin(), call.counts.end()),
          std::string(call.algorithm),
          call.chunks,
          call.root,
          none,
          none,
          call.reproducible ? nlohmann::json(*call.reproducible) : nothing};
}

nlohmann::json message_of(const Call& call, int size) {
  const std::size_t element = size_of(call.dtype), whole = full_bytes(call, size);
  const std::size_t share = call.kind == Kind::all_reduce ? whole : call.count * element;
  return {{"do", "call"},
          {"call", words_of(call)},
          {"buffers",
           {place_of(call.in, call.kind == Kind::all_gather ? share : whole),
            place_of(call.out, call.kind == Kind::reduce_scatter ? share : whole)}},
          {"element", element},
          {"pid", getpid()}};
}

}  // namespace

Crew::Crew(Communicator& core, std::vector<Member> members)
    : core_(core), members_(std::move(members)), trials_(processes()), answers_(core_, members_) {
  const bool mine = may_copy();
  for (const nlohmann::json& may : gather(core_, mine))
    if (!may.get<bool>())
      obstacle_ =
          "processes_per_gpu: the system does not let helpers copy from and to the ranks' memory, so every call goes "
          "by one process; allow it (kernel.yama.ptrace_scope=0)";
}

Crew::~Crew() {
  if (own_.here()) answers_.give_up();
}

bool Crew::may_copy() {
  char byte = 0;
  bool can = true;
  for (Member& member : members_) {
    member.channel->send({{"do", "peek"}, {"pid", getpid()}, {"address", reinterpret_cast<std::uintptr_t>(&byte)}});
    const nlohmann::json answer = member.channel->receive();
    if (!answer.is_object()) answers_.lose(member);
    can = answer.value("can", false) && can;
  }
  return can;
}

bool Crew::takes(const Call& call) const {
  const bool is_sliced =
      call.kind == Kind::all_reduce || call.kind == Kind::all_gather || call.kind == Kind::reduce_scatter;
  return is_sliced && obstacle_.empty() && own_.here() && !answers_.has_given_up() && !call.own_counts() &&
         full_bytes(call, core_.size()) >= kLeastBytes && longest_part(call) >= static_cast<std::size_t>(processes());
}

ProcessTrials::Class Crew::class_of(const Call& call) const {
  return ProcessTrials::class_of(call.kind, full_bytes(call, core_.size()));
}

/// Does the MPI's own collective move it, or a level of it? Helpers are no ranks of that.
bool Crew::goes_by_mpi(const Call& call) {
  if (!call.algorithm.empty()) return has_level(call.algorithm, kMpi);
  const std::lock_guard lock(mutex_);
  const auto shape = std::tuple(call.kind, full_bytes(call, core_.size()), call.dtype, call.op);
  if (const auto known = by_mpi_.find(shape); known != by_mpi_.end()) return known->second;
  return by_mpi_[shape] = has_level(core_.choosing().chosen(call).algorithm, kMpi);
}

ProcessTrials::Trial Crew::number_for(const Call& call, const Interrupt& interrupt) {
  check(call, core_.rank(), core_.size());  // what is refused is no trial
  if (goes_by_mpi(call)) return {};
  const ProcessTrials::Class which = class_of(call);
  if (trials_.is_due(which)) settle_number(which, interrupt);
  return trials_.next(which);
}

void Crew::settle_number(ProcessTrials::Class which, const Interrupt& interrupt) {
  if (const std::shared_ptr<Work> last = answers_.last()) {
    try {
      wait(last, interrupt);  // for its time
    } catch (const Error&) {
      if (!last->done()) throw;  // else the communicator has failed, and says so
    }
  }
  std::vector<double> slowest(trials_.numbers().size(), 0.0);
  for (const nlohmann::json& of_rank : gather(core_, trials_.best(which)))
    for (std::size_t k = 0; k < slowest.size(); ++k) slowest[k] = std::max(slowest[k], of_rank.at(k).get<double>());
  trials_.settle(which, slowest);
}

/// With the algorithm and chunks of a slice, which helpers have no models to choose by.
Call Crew::settled(Call call, int processes) {
  if (call.reproducible.value_or(core_.options().reproducible.value_or(false))) return call;
  Call slice = call;
  slice.counts = {};
  slice.count = longest_part(call) / static_cast<std::size_t>(processes);
  const auto [at, is_new] = chosen_.try_emplace({call.kind, slice.count, call.dtype});
  if (is_new) {
    Choice choice = core_.choosing().chosen(slice);
    if (has_level(choice.algorithm, kMpi)) choice = core_.choosing().chosen(call);
    at->second = {choice.algorithm, choice.chunks};
  }
  call.algorithm = at->second.first;
  call.chunks = at->second.second;
  return call;
}

std::function<void(double)> Crew::timing(const Call& call, ProcessTrials::Trial trial) {
  if (!trial.is_timed) return {};
  const auto bytes = static_cast<double>(full_bytes(call, core_.size()));
  return [this, which = class_of(call), bytes, number = trial.number](double seconds) {
    trials_.note(which, number, seconds / bytes);
  };
}

SlicedCall Crew::tell(const Call& call, ProcessTrials::Trial trial) {
  SlicedCall sliced;
  sliced.timed = timing(call, trial);
  nlohmann::json message = message_of(call, core_.size());
  for (int k = 1; k < trial.number; ++k) {
    Member& member = members_[static_cast<std::size_t>(k * processes() / trial.number - 1)];  // NICs far apart
    sliced.at_work.push_back(&member);
    message["slice"] = {k, trial.number};
    if (member.channel->send(message)) continue;
    try {
      answers_.lose(member);
    } catch (const TransportError&) {
      sliced.own->finish(std::current_exception());
    }
    break;
  }
  return sliced;
}

/// Whatever goes wrong is kept with the call: others may be told by now, and have yet to let go of the buffers.
template <class Move>
void Crew::move_own(Work& own, const Move& move) {
  if (own.done()) return;
  try {
    move();
  } catch (const UsageError&) {
    own.finish(std::current_exception());
  } catch (...) {
    answers_.give_up();
    own.finish(std::current_exception());
  }
}

void Crew::wait(const std::shared_ptr<Work>& whole, const Interrupt& interrupt) {
  try {
    Communicator::wait(*whole, interrupt);
  } catch (const std::exception& error) {
    if (whole->done()) throw;
    core_.abort(error.what());
    answers_.give_up();
    whole->wait_done();  // until nobody writes to the buffers any more
    throw;
  }
}

void Crew::run(const Call& call, const Interrupt& interrupt, std::optional<BesideOthers> beside) {
  const ProcessTrials::Trial trial = number_for(call, interrupt);
  if (trial.number == 1) {
    const auto begin = std::chrono::steady_clock::now();
    core_.run(call, interrupt, beside);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (const auto note = timing(call, trial)) note(taken.count());
    return;
  }
  std::unique_lock lock(mutex_);
  Call mine = settled(call, trial.number);
  const SlicedCall sliced = tell(mine, trial);
  answers_.add(sliced);  // before other threads' calls
  lock.unlock();
  mine.slice = {0, trial.number};
  move_own(*sliced.own, [&] {
    core_.run(mine, interrupt, beside);
    sliced.own->finish(nullptr);
  });
  wait(sliced.whole, interrupt);
}

std::shared_ptr<Work> Crew::start(const Call& call, const Interrupt& interrupt) {
  const ProcessTrials::Trial trial = number_for(call, interrupt);
  if (trial.number == 1 && !trial.is_timed) return core_.start(call, interrupt);
  std::unique_lock lock(mutex_);
  Call mine = trial.number == 1 ? call : settled(call, trial.number);
  SlicedCall sliced = tell(mine, trial);
  mine.slice = {0, trial.number};
  const std::shared_ptr<Work> unstarted = sliced.own, whole = sliced.whole;
  move_own(*unstarted, [&] { sliced.own = core_.start(mine, interrupt); });
  answers_.add(std::move(sliced));
  lock.unlock();
  if (unstarted->done()) wait(whole, interrupt);  // it has failed
  return whole;
}

std::vector<Member> Crew::split(int color, int key) {
  const std::lock_guard lock(mutex_);
  std::vector<Member> found;
  for (Member& member : members_) {
    auto [mine, theirs] = Channel::make_pair();
    member.channel->send({{"do", "split"}, {"leader", getpid()}, {"color", color}, {"key", key}}, theirs.get());
    found.push_back({member.place, member.process, std::make_unique<Channel>(std::move(mine))});
  }
  return found;
}

}  // namespace lanecast::helpers
