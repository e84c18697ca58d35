// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/rounds.h"

#include "runtime/communicator/carried_messages.h"
#include "runtime/communicator/messages.h"
#include "runtime/communicator/waits.h"

namespace lanecast {

ProgressRounds::ProgressRounds(const Footing& footing, const Parts& parts)
    : ground_(footing.ground),
      gate_(footing.gate),
      failing_(footing.failing),
      waits_(footing.waits),
      calls_(parts.calls),
      launched_(parts.launched),
      carried_(parts.carried),
      messages_(parts.messages) {
  failing_.also_ends([this](const std::exception_ptr&) { tell_by_and_by(); });
}

void ProgressRounds::hand_to_thread() {
  // Where it does already, no caller waits for its round to end. The thread takes this back before it looks for calls
  // for the last time, and a call is started before this is asked, so one of the two sees the other. Sequentially
  // consistent: that look may fail to get in, where a caller is, and orders nothing then.
  if (is_moved) return ground_.progress->wake();
  try {
    ground_.progress->add(*this);
  } catch (const UsageError&) {
    give_up();
    throw;
  } catch (const std::exception& error) {  // no thread can be started, so nobody moves what is under way
    const Gate::Lock lock = gate_.try_enter();
    if (lock.owns_lock() && !gate_.failure()) failing_.fail(failure_of(error));
    throw;
  }
}

ThreadWork ProgressRounds::work() {
  const Gate::Lock lock = gate_.try_enter();
  if (!lock.owns_lock() || !calls_.empty() || !launched_.empty() || !carried_.empty() || !messages_.empty() || telling_)
    return ThreadWork::some;
  return launched_.listens() || carried_.listens() ? ThreadWork::listens : ThreadWork::none;
}

bool ProgressRounds::advance() {
  if (gate_.is_wanted()) return false;
  const Gate::Lock lock = gate_.try_enter();  // a caller inside run() must not hold up other communicators
  if (!lock.owns_lock()) return false;
  gate_.heed_watch();
  RunningTime& ran = waits_.ran();
  ran.look(waits_.timeout_s());  // before anything that begins to wait now
  if (telling_) {
    if (ran.seconds_since(telling_->last_progress) > telling_->timeout_s || !ground_.router->tell()) telling_.reset();
  }
  bool beside = launched_.advance();
  beside |= carried_.advance();
  if (calls_.empty()) return messages_.advance() || beside;
  const bool moved = calls_.advance();
  if (!moved) messages_.look_after(calls_.empty());  // moved together with them
  return moved || beside;
}

void ProgressRounds::give_up() {
  const Gate::Lock lock = gate_.try_enter();  // held: by a blocking call, which runs when there is none
  if (lock.owns_lock() && !(calls_.empty() && launched_.empty() && carried_.empty() && messages_.empty()))
    failing_.fail({FailureKind::user, "the process is ending while calls are under way"});
}

void ProgressRounds::tell_by_and_by() {
  if (!ground_.router->tell() || !threads_refused(ground_.around).empty()) return;
  telling_ = Deadline{std::chrono::steady_clock::now(), waits_.timeout_s()};
  try {
    ground_.progress->add(*this);
  } catch (const UsageError&) {  // the process is ending
    telling_.reset();
  }
}

void ProgressRounds::advance_until_done(Work& work, const Interrupt& interrupt) {
  // Programs of several threads have more than cores at times. Of two ranks on one core, each would wait for the other
  // to have spun: 220 us instead of 7 for a small call.
  Patience patience(ground_.rivals == Rivals::none ? Rivals::ranks : ground_.rivals);
  std::optional<std::chrono::steady_clock::time_point> asked;  // a short call never looks at the clock
  while (!work.done()) {
    if (advance()) {
      patience.reset();
    } else if (patience.pause() && interrupt) {
      const auto now = std::chrono::steady_clock::now();
      if (!asked) asked = now;
      if (now - *asked < kLookEvery) continue;
      asked = now;
      try {
        interrupt();
      } catch (const std::exception& error) {
        fail_if_interrupted(work, error);
        throw;
      }
    }
  }
  work.wait_for(std::chrono::seconds(0));
}

void ProgressRounds::wait(Work& work, const Interrupt& interrupt) {
  while (!work.wait_for(kLookEvery))
    if (interrupt) interrupt();
}

void ProgressRounds::wait_or_fail(Work& work, const Interrupt& interrupt) {
  try {
    wait(work, interrupt);
  } catch (const std::exception& error) {
    fail_if_interrupted(work, error);
    throw;
  }
}

void ProgressRounds::fail_if_interrupted(Work& work, const std::exception& error) {
  if (work.done()) return;  // it is the call's own
  const Gate::Lock lock = gate_.enter();
  failing_.fail(failure_of(error));
}

}  // namespace lanecast
