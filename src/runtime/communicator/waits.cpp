// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/waits.h"

#include <algorithm>
#include <utility>

#include "runtime/agree/wait_chain.h"

namespace lanecast {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a library's collective may still move nothing after a member has gone: one that had done its part may
/// leave, and unlike messages, that part does not come by the transport that sees the member go.
constexpr auto kLastParts = std::chrono::seconds(2);

/// A rank of the communicator. Where calls differ a rank may be asked by one that it does not wait for. To listen to
/// all takes a receive each, which is nothing beside such a wait.
constexpr auto kListensAfter = std::chrono::milliseconds(1);

}  // namespace

Waits::Waits(Ground& ground, Gate& gate, Failing& failing)
    : ground_(ground),
      gate_(gate),
      failing_(failing),
      agreement_(*ground.router, ground.rank(), ground.id, ground.options.check_calls),
      timeout_s_(ground.options.timeout_s.value_or(kTimeout_s)) {}

void Waits::check_timeout(double timeout_s) const {
  if (!(timeout_s > 0)) throw UsageError("rank " + std::to_string(ground_.rank()) + ": timeout_s: must be more than 0");
}

Bootstrap Waits::among(Gathering gathering) const {
  gathering.me = static_cast<int>(std::ranges::find(gathering.ranks, ground_.rank()) - gathering.ranks.begin());
  gathering.timeout_s = timeout_s_;
  if (!beside_.empty())
    gathering.meanwhile = [this, given = std::move(gathering.meanwhile)](auto missing, auto last_moved) {
      move_beside();
      if (given) given(missing, last_moved);
    };
  return bootstrap_over(ground_.router, std::move(gathering));
}

Bootstrap Waits::among_all(const std::string& what) {
  return among({.ranks = ground_.topology.everyone(), .what = what, .meanwhile = [this](auto...) {
                  gate_.ask(ground_.options.interrupt);
                }});
}

bool Waits::move_beside() const {
  bool moved = false;
  for (const auto& beside : beside_) moved |= beside();
  return moved;
}

bool Waits::advance(UnderWay& call) {
  bool moved = false;
  with_reasons(call, [&] { moved = call.advance(); });
  return moved;
}

void Waits::look_for_reasons(const UnderWay& call) {
  const std::vector<int> awaited = call.awaited_peers();
  agreement_.compare(awaited);
  for (int peer : awaited)
    if (const Loss loss = ground_.router->witness(peer).lost(peer); loss.cause) give_up(call, peer, loss);
}

void Waits::drive(UnderWay& call, const Interrupt& interrupt) {
  Patience patience(ground_.rivals);
  Deadline deadline{{}, timeout_s_};
  bool moved = true, looked = false;  // a short call never stops to look, not even at the clock
  while (!call.finished()) {
    const bool moved_beside = move_beside();
    if (moved_beside) patience.reset();
    if (advance(call)) {
      moved = true;
      patience.reset();
    } else if (patience.pause() || moved_beside) {
      if (std::exchange(moved, false)) {
        ran_.look(timeout_s_);  // what was worked before is none of this wait's time
        deadline.last_progress = Clock::now();
      }
      if (!std::exchange(looked, true)) last_look_ = deadline.last_progress;
      look_around(call, deadline, interrupt, Caller::blocked);
    }
  }
  if (looked) ground_.log.waits({});
}

void Waits::look_around(const UnderWay& call, const Deadline& deadline, const Interrupt& interrupt, Caller caller) {
  const auto now = Clock::now();
  if (now - last_look_ < kLookEvery) return;
  last_look_ = now;
  gate_.ask(interrupt);
  if (now - deadline.last_progress >= kLookEvery) ground_.log.waits(describe(call, -1));
  look_at(call, deadline, caller);
}

void Waits::look_at(const UnderWay& call, const Deadline& deadline, Caller caller) {
  const std::vector<int> awaited = call.awaited_peers();
  ran_.look(deadline.timeout_s);
  const auto waited = ran_.since(deadline.last_progress);
  const double waited_s = std::chrono::duration<double>(waited).count();
  const double timeout_s = deadline.timeout_s;
  if (waited >= kLookEvery)
    ground_.router->publish_wait(awaited, waited_s >= kAskFrom * timeout_s || waited >= ground_.size() * kListensAfter);
  if (waited >= kLookEvery && !call.launch()) {
    agreement_.compare(awaited, waited);
    const CallAgreement::Wait wait{awaited, deadline.last_progress, ran_, caller == Caller::blocked};
    agreement_.tell_wants(call, wait);
    agreement_.refuse_unmet_wants(call, wait);
  }
  for (int peer : awaited)
    if (const Loss loss = ground_.router->witness(peer).lost(peer))
      if (loss.cause || waited >= kLastParts || call.awaits_message(peer)) give_up(call, peer, loss);
  end_at_deadline(*ground_.router,
                  {ground_.rank(), awaited, waited_s, timeout_s, ran_, [&] { return describe(call, -1); }});
}

void Waits::give_up(const UnderWay& call, int peer, const Loss& loss) {
  failing_.lose(peer, loss, "in " + describe(call, peer));
}

std::string Waits::describe(const UnderWay& call, int peer) const {
  return call.waiting_for(peer) + " over " + ground_.router->str() + " (" + number_of(call) + ")";
}

std::string Waits::number_of(const UnderWay& call) const {
  const auto launch = call.launch();
  return launch ? "launch " + std::to_string(*launch) : "call " + std::to_string(calls_);
}

}  // namespace lanecast
