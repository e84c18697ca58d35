// SPDX-License-Identifier: Apache-2.0
#include "helpers/answers.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/endless_wait.h"
#include "base/error.h"
#include "base/quiet_thread.h"

namespace lanecast::helpers {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLook_ms = 200;                            // between looks at a helper that has not answered
constexpr auto kLetsGoWithin = std::chrono::seconds(5);  // for a helper to let go of a call

[[noreturn]] void throw_as(const std::string& kind, const std::string& text) {
  if (kind == "UsageError") throw UsageError(text);
  if (kind == "TimeoutError") throw TimeoutError(text);
  throw TransportError(text);
}

}  // namespace

Answers::Answers(Communicator& core, std::vector<Member>& members)
    : core_(core), members_(members), thread_(quiet_thread([this] { serve(); })) {}

Answers::~Answers() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Answers::add(SlicedCall call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  changed_.notify_all();
}

std::shared_ptr<Work> Answers::last() const {
  const std::lock_guard lock(mutex_);
  return calls_.empty() ? nullptr : calls_.back().whole;
}

std::string Answers::waits_for(const Work& whole) const {
  const std::lock_guard lock(mutex_);
  for (const SlicedCall& call : calls_) {
    if (call.whole.get() != &whole) continue;
    std::string text = core_.waits_for(*call.own);
    return text.empty() ? "its helpers" : text;
  }
  return {};
}

void Answers::serve() {
  Clock::time_point last_end{};
  std::unique_lock lock(mutex_);
  while (true) {
    wait_without_end(changed_, lock, [this] { return closing_ || !calls_.empty(); });
    if (calls_.empty()) return;
    SlicedCall& call = calls_.front();  // stays where it is while others are added
    lock.unlock();
    const std::exception_ptr error = end_of(call);
    const auto end = Clock::now();
    if (!error && call.timed) call.timed(std::chrono::duration<double>(end - std::max(call.begin, last_end)).count());
    last_end = end;
    const std::shared_ptr<Work> whole = call.whole;
    lock.lock();
    calls_.pop_front();
    lock.unlock();
    whole->finish(error);  // its listener may make calls
    lock.lock();
  }
}

std::exception_ptr Answers::end_of(const SlicedCall& call) {
  std::exception_ptr refusal;  // of all processes alike, so nothing has moved
  try {
    try {
      await_own(*call.own);
    } catch (const UsageError&) {
      refusal = std::current_exception();
    }
    if (has_given_up() && !call.at_work.empty())
      throw TransportError("rank " + std::to_string(core_.rank()) +
                           ": its helpers have ended with a call that has failed; make a new communicator");
    for (Member* member : call.at_work) take_answer(*member, refusal != nullptr);
    return refusal;
  } catch (...) {
    let_go();
    return std::current_exception();
  }
}

bool Answers::is_closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

void Answers::fail_as_gone() const {
  throw TransportError("rank " + std::to_string(core_.rank()) + ": its communicator has gone while the call ran");
}

void Answers::await_own(Work& own) const {
  while (!own.wait_for(std::chrono::milliseconds(kLook_ms)))
    if (is_closing()) fail_as_gone();
}

void Answers::take_answer(Member& member, bool refused) {
  await_answer(member);
  const nlohmann::json answer = member.channel->receive();
  if (!answer.is_object()) lose(member);
  if (!answer.contains("error") || refused) return;
  const std::string text =
      "rank " + std::to_string(core_.rank()) + ": " + name_of(member) + ": " + answer.value("text", "");
  core_.abort(text);
  throw_as(answer.value("error", ""), text);
}

/// A helper that runs looks at deadlines by itself; one that gets no processor time cannot.
void Answers::await_answer(const Member& member) {
  auto since = Clock::now();
  std::int64_t worked = -1;
  while (!member.channel->has_answer(kLook_ms)) {
    if (is_closing()) fail_as_gone();
    const std::int64_t works = member.process->processor_ticks();
    const double timeout_s = core_.options().timeout_s.value_or(kTimeout_s);
    if (works != worked) {
      since = Clock::now();
      worked = works;
    } else if (Clock::now() - since > std::chrono::duration<double>(timeout_s)) {
      const std::string text = "rank " + std::to_string(core_.rank()) + ": " + name_of(member) +
                               " has not worked for " + std::to_string(timeout_s) + " s: it " +
                               member.process->state() + "; look at that process";
      core_.abort(text);
      throw TimeoutError(text);
    }
  }
}

void Answers::lose(const Member& member) {
  give_up();
  const std::string text = "rank " + std::to_string(core_.rank()) + ": " + name_of(member) + " has ended" +
                           member.process->how_it_has_ended() + "; see why, and make a new communicator";
  core_.abort(text);
  throw TransportError(text);
}

void Answers::give_up() {
  gave_up_.store(true, std::memory_order_relaxed);
  for (const Member& member : members_) member.channel->end();
}

/// Until no helper can write to the call's buffers any more, which their owner may free.
void Answers::let_go() {
  give_up();
  const auto until = Clock::now() + kLetsGoWithin;
  for (const Member& member : members_) {
    bool ended = false;
    while (!ended && Clock::now() < until)
      ended = member.channel->has_answer(kLook_ms) && !member.channel->receive().is_object();
    if (!ended) member.process->kill();
  }
}

std::string Answers::name_of(const Member& member) const {
  return "its helper " + std::to_string(member.place) + " of " + std::to_string(members_.size()) + " (process " +
         std::to_string(member.process->id()) + ")";
}

}  // namespace lanecast::helpers
