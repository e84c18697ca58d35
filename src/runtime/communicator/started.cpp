// SPDX-License-Identifier: Apache-2.0
// Calls that were started: they wait their turn, and the progress thread moves the first of them.
#include "runtime/communicator/started.h"

#include "runtime/agree/wait_chain.h"

namespace lanecast {
namespace {

/// A call up to where it has its groups.
class Opening final : public UnderWay {
 public:
  explicit Opening(Execution& execution) : execution_(execution) {}
  bool advance() override { return execution_.advance(); }
  bool finished() const override { return execution_.has_groups(); }
  std::string waiting_for(int peer) const override { return execution_.waiting_for(peer); }
  std::vector<int> awaited_peers() const override { return execution_.awaited_peers(); }
  bool awaits_message(int peer) const override { return execution_.awaits_message(peer); }
  /// Its end, not that of the call: the caller may then send before it waits for that.
  Needs needs(int peer) const override { return execution_.calls_roll_of(peer) ? Needs::yes : Needs::no; }

 private:
  Execution& execution_;
};

}  // namespace

void Communicator::queue(const std::shared_ptr<Started>& call) {
  ground_.shown.starts(call->work);
  started_.push_back(call);
}

std::shared_ptr<Communicator::Started> Communicator::bind(const Call& call) {
  auto bound = std::make_shared<Started>();
  bound->execution = prepare(call);
  bound->in = static_cast<const std::byte*>(call.in);
  bound->out = static_cast<std::byte*>(call.out);
  return bound;
}

template <class Part>
void Communicator::or_fail(const std::shared_ptr<Execution>& call, const Part& part) {
  failing_.or_fail([&] {
    try {
      part();
    } catch (const std::exception&) {
      plans_->keep(call);
      throw;
    }
  });
}

void Communicator::begin(OrderedCall& call, const std::byte* in, std::byte* out) {
  CallRecord record = call.record();
  record.sequence = ++calls_;
  failing_.heed_at(ground_.log.begin(record), [&] { return name_of(record.kind); });
  with_reasons(call, [&] { call.start(in, out, agreement_.begin(calls_, call.signature())); });
}

void Communicator::end(Execution& call) {
  surprises_->judge(call.expectation(), ground_.log.end(), [&] {
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

void Communicator::open_groups(Started& call, Lock& lock, const Interrupt& interrupt) {
  if (call.execution->has_groups()) return;
  drain(lock, interrupt);
  or_fail(call.execution, [&] {
    begin(*call.execution, call.in, call.out);
    Opening opening(*call.execution);
    drive(opening, interrupt);
  });
  call.running = true;
  call.deadline.last_progress = std::chrono::steady_clock::now();
}

std::shared_ptr<Work> Communicator::start(const Call& call, const Interrupt& interrupt) {
  std::shared_ptr<Started> started;
  {
    std::unique_lock lock = gate_.enter();
    gate_.refuse_without_threads();
    started = bind(call);
    started->deadline.timeout_s = timeout_s_;
    open_groups(*started, lock, interrupt);
    queue(started);
  }
  hand_to_thread();
  return started->work;
}

void Communicator::run_beside_others(const Call& call, std::optional<double> timeout_s, const Interrupt& interrupt) {
  if (timeout_s) check_timeout(*timeout_s);
  std::shared_ptr<Started> started;
  {
    std::unique_lock lock = gate_.enter(interrupt);
    started = bind(call);
    started->deadline.timeout_s = timeout_s.value_or(timeout_s_);
    open_groups(*started, lock, interrupt);
    queue(started);
  }
  advance_until_done(*started->work, interrupt);
}

void Communicator::advance_until_done(Work& work, const Interrupt& interrupt) {
  // Programs of several threads have more than cores at times. Of two ranks on one core, each would wait for the other
  // to have spun: 220 us instead of 7 for a small call.
  Patience patience(ground_.rivals == Rivals::none ? Rivals::ranks : ground_.rivals);
  std::optional<std::chrono::steady_clock::time_point> asked;  // a short call never looks at the clock
  while (!work.done()) {
    if (advance_started()) {
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

void Communicator::start(const std::shared_ptr<Started>& call, const Interrupt& interrupt) {
  {
    std::unique_lock lock = gate_.enter();
    gate_.refuse_without_threads();
    gate_.refuse_if_failed();
    if (!call->work->done())
      throw UsageError("rank " + std::to_string(rank()) + ": start: this call is under way; wait for it first");
    call->running = false;
    call->deadline.timeout_s = timeout_s_;
    open_groups(*call, lock, interrupt);
    call->work->restart();
    queue(call);
  }
  hand_to_thread();
}

void Communicator::run(const std::shared_ptr<Started>& call, const Interrupt& interrupt) {
  {
    const std::unique_lock lock = gate_.enter(interrupt);
    gate_.refuse_if_failed();
    if (started_.empty()) return run_now(call->execution, call->in, call->out, interrupt);
  }
  start(call, interrupt);
  wait_or_fail(*call->work, interrupt);
}

void Communicator::hand_to_thread() {
  // Where it does already, no caller waits for its round to end. The thread takes this back before it looks for calls
  // for the last time, and a call is started before this is asked, so one of the two sees the other. Sequentially
  // consistent: that look may fail to get in, where a caller is, and orders nothing then.
  if (is_moved_) return;
  try {
    ground_.progress->add(*this);
  } catch (const UsageError&) {
    give_up_started();
    throw;
  }
}

void Communicator::wait(Work& work, const Interrupt& interrupt) {
  while (!work.wait_for(kLookEvery))
    if (interrupt) interrupt();
}

void Communicator::wait_or_fail(Work& work, const Interrupt& interrupt) {
  try {
    wait(work, interrupt);
  } catch (const std::exception& error) {
    fail_if_interrupted(work, error);
    throw;
  }
}

void Communicator::fail_if_interrupted(Work& work, const std::exception& error) {
  if (work.done()) return;  // it is the call's own
  const std::unique_lock lock = gate_.enter();
  failing_.fail(failure_of(error));
}

std::string Communicator::waits_for(const Work& work) {
  // Not by gate_.enter(), and not for long: a call of another thread may be in until its peers come.
  const Lock lock = gate_.try_enter_soon();
  if (!lock) return ground_.log.waiting();
  const auto told = [this](const UnderWay& call) {
    return names_of(call.awaited_peers()) + " in " + describe_wait(call, -1);
  };
  for (const auto& batch : batches_)
    if (batch->work.get() == &work && !batch->finished()) return told(*batch);
  for (const auto& call : started_) {
    if (call->work.get() != &work) continue;
    if (!started_.front()->running) return "its turn";
    return (call == started_.front() ? "" : "the call before it, which waits for ") + told(started_.front()->call());
  }
  return {};
}

bool Communicator::has_started() {
  const Lock lock = gate_.try_enter();
  return !lock.owns_lock() || !started_.empty() || !batches_.empty() || telling_;
}

bool Communicator::advance_started() {
  if (gate_.is_wanted()) return false;
  const Lock lock = gate_.try_enter();  // a caller inside run() must not hold up other communicators
  if (!lock.owns_lock()) return false;
  gate_.heed_watch();
  ran_.look(timeout_s_);  // before anything that begins to wait now
  if (telling_) {
    if (ran_.seconds_since(telling_->last_progress) > telling_->timeout_s || !ground_.router->tell()) telling_.reset();
  }
  if (started_.empty()) return advance_batches();
  const std::shared_ptr<Started> front = started_.front();  // its caller may let go of it meanwhile
  Started& call = *front;
  ground_.shown.waits_for(call.deadline.timeout_s);
  try {
    bool moved = true;
    if (!call.running) {
      call.running = true;
      last_look_ = std::chrono::steady_clock::now();
      begin(call.call(), call.in, call.out);
    } else {
      moved = advance(call.call());
    }
    if (call.call().on_hold()) failing_.heed_at(trace_clock_ns(), [] { return "work on GPUs"; });
    if (moved || call.call().on_hold())
      call.deadline.last_progress = std::chrono::steady_clock::now();
    else
      look_around(call.call(), call.deadline, {}, Caller::free);
    if (call.call().finished()) {
      if (call.on_gpu)
        ground_.log.end();  // nothing is predicted of it
      else
        end(*call.execution);
      call.work->finish(nullptr);
      started_.erase(started_.begin());
    }
    if (!moved) look_after_batches();  // moved together with it
    return moved;
  } catch (const std::exception& error) {
    // Peers may be reading the call's buffers until failing_.fail() returns, and whoever waits for it frees them when
    // it is done.
    const std::exception_ptr why = std::current_exception();
    started_.erase(started_.begin());
    plans_->keep(call.shared());
    failing_.fail(failure_of(error));
    call.work->finish(why);
    return true;
  }
}

void Communicator::end_started(const std::exception_ptr& error) {
  for (auto& call : started_) {
    plans_->keep(call->shared());
    call->work->finish(error);
  }
  started_.clear();
  for (auto& batch : batches_)
    if (!batch->finished() && !batch->work->done()) batch->work->finish(error);
  batches_.clear();
  tell_by_and_by();
}

void Communicator::tell_by_and_by() {
  if (!ground_.router->tell() || !threads_refused(ground_.around).empty()) return;
  telling_ = Deadline{std::chrono::steady_clock::now(), timeout_s_};
  try {
    ground_.progress->add(*this);
  } catch (const UsageError&) {  // the process is ending
    telling_.reset();
  }
}

void Communicator::give_up_started() {
  const Lock lock = gate_.try_enter();  // held: by a blocking call, which runs when there is none
  if (lock.owns_lock() && !(started_.empty() && batches_.empty()))
    failing_.fail({FailureKind::user, "the process is ending while calls are under way"});
}

void Communicator::drain(Lock& lock, const Interrupt& interrupt) {
  while (!started_.empty()) {
    const auto last = started_.back()->work;
    lock.unlock();
    while (!last->is_done_within(kLookEvery))
      if (interrupt) interrupt();
    gate_.enter_again(lock, interrupt);
  }
  gate_.refuse_if_failed();
}

}  // namespace lanecast
