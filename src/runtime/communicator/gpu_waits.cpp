// SPDX-License-Identifier: Apache-2.0
// Waits for what is enqueued on a GPU: each ends when a peer has gone, a kernel has met a fault, or the user wants it.
#include <atomic>
#include <cstdio>
#include <thread>

#include "base/quiet_thread.h"
#include "runtime/communicator/carried_messages.h"
#include "runtime/communicator/device_work.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/launched_calls.h"
#include "runtime/communicator/rounds.h"
#include "runtime/communicator/waits.h"

namespace lanecast {
namespace {

/// How long the device may still be at work when a peer has gone: one whose part is done may leave, and what it has
/// written is taken then.
constexpr auto kLastWrites = std::chrono::seconds(2);

}  // namespace

void GpuCalls::keep_waiting(const std::string& what, double begun_s) {
  waits_.ran().look(waits_.timeout_s());
  const double waited_s = waits_.ran().seconds_of(begun_s);
  gate_.ask(ground_.options.interrupt);
  lost_peer(waited_s >= std::chrono::duration<double>(kLastWrites).count());
  if (waited_s >= waits_.timeout_s())
    throw TimeoutError("rank " + std::to_string(rank()) + " waited " + std::to_string(waited_s) + " s for the other " +
                       "ranks, which have to come for " + what + "; are they alive, and have they made the same call?");
}

void GpuCalls::check() {
  const std::unique_lock lock = gate_.enter();
  if (gate_.failure()) raise(gate_.failure());
  if (executor_) look();
}

void GpuCalls::look() {
  failing_.or_fail([&] {
    executor_->raise_fault();
    const auto before = [] { return "a call on its GPU"; };
    // What a peer's abort has ended here has ended without a word of the kernel's: that peer has said so on the board.
    // To look for notes of all peers takes longer than a call, some 10 us.
    if (const WithinHost* const host = executor_->within_host(); host && host->board.any_given_up())
      failing_.heed(before());
    else
      failing_.heed_at(trace_clock_ns(), before);
  });
}

void GpuCalls::wait_for(const std::function<bool()>& done, const Interrupt& interrupt) {
  wait_for(done, interrupt, Leavers::count);
  const std::unique_lock lock = gate_.enter();
  if (gate_.failure()) raise(gate_.failure());
  look();
}

void GpuCalls::wait_for(const std::function<bool()>& done, const Interrupt& interrupt, Leavers leavers) {
  using Clock = std::chrono::steady_clock;
  auto looked = Clock::now();
  std::optional<Clock::time_point> lost;
  while (!done()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const auto now = Clock::now();
    if (now - looked < kLookEvery) continue;
    looked = now;
    const std::unique_lock lock = gate_.enter();
    if (gate_.failure()) raise(gate_.failure());  // it is the one that this call waits for
    waits_.ran().look(waits_.timeout_s());
    failing_.or_fail([&] {
      gate_.ask(interrupt);
      executor_->raise_fault();
      const bool has_gone = lost_peer(lost && waits_.ran().since(*lost, now) >= kLastWrites, leavers);
      if (has_gone && !lost) lost = now;
    });
  }
}

bool GpuCalls::lost_peer(bool is_final, Leavers leavers) {
  for (int peer = 0; peer < ground_.size(); ++peer) {
    if (peer == rank()) continue;
    const Loss loss = ground_.router->witness(peer).lost(peer);
    if (!loss || (loss.left && leavers == Leavers::may_go)) continue;
    if (is_final || loss.cause) failing_.lose(peer, loss, "while its GPU was at work");
    return true;
  }
  return false;
}

void GpuCalls::synchronize(const Interrupt& interrupt) {
  std::shared_ptr<GpuExecutor> executor;
  std::shared_ptr<Work> messages, launched;
  {
    const std::unique_lock lock = gate_.enter();
    gate_.refuse_if_failed();
    executor = executor_;
    messages = last_;
    launched = last_launched_;
  }
  const auto done = [](const std::shared_ptr<Work>& work) { return !work || work->done(); };
  const auto replays_are_through = [this] {
    const Gate::Lock lock = gate_.try_enter();
    return lock.owns_lock() && launched_.empty();
  };
  if (executor)
    wait_for([&] { return executor->idle() && done(messages) && done(launched) && replays_are_through(); }, interrupt);
}

void GpuCalls::finish() {
  std::shared_ptr<GpuExecutor> executor;
  std::shared_ptr<Work> messages;
  bool heard = false;
  try {
    {
      const std::unique_lock lock = gate_.enter();
      heard = static_cast<bool>(gate_.failure());
      executor = executor_;
      messages = last_;
    }
    if (messages) messages->wait_done();
    finish_carried();
    finish_launched();
    if (executor && !heard) finish_kernels(*executor);
  } catch (const std::exception& error) {
    const Gate::Lock lock = gate_.try_enter();  // else a library keeps the thread that moves messages
    if (lock.owns_lock() && !gate_.failure()) failing_.fail(failure_of(error));
    const bool says_why = lock.owns_lock() && gate_.failure();
    if (!heard)
      std::fprintf(stderr, "lanecast: at the end of a communicator: %s\n",
                   says_why ? gate_.failure().text.c_str() : error.what());
  }
}

void GpuCalls::finish_kernels(const GpuExecutor& executor) {
  // They end at their deadline. Where a peer has failed they end sooner, since somebody looks.
  wait_for([&] { return executor.idle(); }, {}, Leavers::may_go);
  const std::unique_lock lock = gate_.enter();
  if (gate_.failure()) raise(gate_.failure());
  failing_.or_fail([&] { executor.raise_fault(); });
}

void GpuCalls::finish_carried() {
  const auto are_through = [this] {
    const std::unique_lock lock = gate_.enter();
    return carried_.empty();
  };
  for (Patience patience(Rivals::ranks); !are_through(); patience.pause()) rounds_.advance();
}

void GpuCalls::keep_for_good() const {
  if (executor_ && executor_->between_hosts()) executor_->between_hosts()->messages().keep_for_good();
}

void GpuCalls::finish_launched() {
  std::shared_ptr<GpuExecutor> executor;
  {
    const std::unique_lock lock = gate_.enter();
    if ((launched_.is_open() || carried_.follows_device()) && !gate_.failure()) executor = executor_;
  }
  if (!executor) return;
  std::atomic<bool> has_run = false;
  // Nobody but the device knows what graphs replay. Release: pairs with the acquire below.
  struct Joined {
    std::thread thread;
    ~Joined() { thread.join(); }
  };
  const Joined waits{quiet_thread([&] {
    executor->wait_for_device();
    has_run.store(true, std::memory_order_release);
  })};
  for (Patience patience(Rivals::ranks);; patience.pause()) {
    rounds_.advance();  // the progress thread may have ended
    const bool all_have_begun = has_run.load(std::memory_order_acquire);
    const std::unique_lock lock = gate_.enter();
    if (all_have_begun && launched_.empty() && carried_.empty()) return;
  }
}

void DeviceWork::synchronize(const Interrupt& interrupt) const {
  calls_.wait_for([this] { return done(); }, interrupt);
}

}  // namespace lanecast
