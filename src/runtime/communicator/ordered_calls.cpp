// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/ordered_calls.h"

#include "runtime/agree/wait_chain.h"
#include "runtime/communicator/waits.h"

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

OrderedCalls::OrderedCalls(const Footing& footing, CallBinder& binding)
    : ground_(footing.ground),
      gate_(footing.gate),
      failing_(footing.failing),
      waits_(footing.waits),
      binding_(binding) {
  failing_.also_ends([this](const std::exception_ptr& error) { end_all(error); });
}

template <class Part>
void OrderedCalls::or_fail(const std::shared_ptr<Execution>& call, const Part& part) {
  failing_.or_fail([&] {
    try {
      part();
    } catch (const std::exception&) {
      binding_.keep(call);
      throw;
    }
  });
}

void OrderedCalls::begin(OrderedCall& call, const std::byte* in, std::byte* out) {
  CallRecord record = call.record();
  record.sequence = waits_.next_call();
  failing_.heed_at(ground_.log.begin(record), [&] { return name_of(record.kind); });
  waits_.with_reasons(call, [&] { call.start(in, out, waits_.agreement().begin(record.sequence, call.signature())); });
}

void OrderedCalls::end(Execution& call) {
  surprises_->judge(call.expectation(), ground_.log.end(), [&] {
    const CallRecord& record = call.record();
    return Surprise{
        .kind = record.kind, .bytes = record.bytes, .algorithm = call.plan().algorithm, .chunks = record.chunks};
  });
}

void OrderedCalls::run_now(const std::shared_ptr<Execution>& call, const void* in, void* out,
                           const Interrupt& interrupt) {
  or_fail(call, [&] {
    begin(*call, static_cast<const std::byte*>(in), static_cast<std::byte*>(out));
    waits_.drive(*call, interrupt);
    end(*call);
  });
}

void OrderedCalls::open_groups(BoundCall& call, const CallTurn& turn) {
  if (call.execution->has_groups()) return;
  drain(turn.lock, turn.interrupt);
  or_fail(call.execution, [&] {
    begin(*call.execution, call.in, call.out);
    Opening opening(*call.execution);
    waits_.drive(opening, turn.interrupt);
  });
  call.running = true;
  call.deadline.last_progress = std::chrono::steady_clock::now();
}

void OrderedCalls::queue(const std::shared_ptr<BoundCall>& call, const CallTurn& turn) {
  call->running = false;
  call->deadline.timeout_s = turn.timeout_s;
  open_groups(*call, turn);
  call->work->restart();
  push(call);
}

std::shared_ptr<Work> OrderedCalls::look_after(std::shared_ptr<OrderedCall> on_gpu) {
  const auto call = BoundCall::of_device(std::move(on_gpu), waits_.timeout_s());
  push(call);
  return call->work;
}

void OrderedCalls::push(const std::shared_ptr<BoundCall>& call) {
  ground_.shown.starts(call->work);
  calls_.push_back(call);
}

bool OrderedCalls::advance() {
  const std::shared_ptr<BoundCall> front = calls_.front();  // its caller may let go of it meanwhile
  BoundCall& call = *front;
  ground_.shown.waits_for(call.deadline.timeout_s);
  try {
    bool moved = true;
    if (!call.running) {
      call.running = true;
      waits_.begins();
      begin(call.call(), call.in, call.out);
    } else {
      moved = waits_.advance(call.call());
    }
    if (call.call().on_hold()) failing_.heed_at(trace_clock_ns(), [] { return "work on GPUs"; });
    if (moved || call.call().on_hold())
      call.deadline.last_progress = std::chrono::steady_clock::now();
    else
      waits_.look_around(call.call(), call.deadline, {}, Waits::Caller::free);
    if (call.call().finished()) {
      if (call.on_gpu)
        ground_.log.end();  // nothing is predicted of it
      else
        end(*call.execution);
      call.work->finish(nullptr);
      calls_.erase(calls_.begin());
    }
    return moved;
  } catch (const std::exception& error) {
    // Peers may be reading the call's buffers until fail() returns, and whoever waits for it frees them when it is
    // done.
    const std::exception_ptr why = std::current_exception();
    calls_.erase(calls_.begin());
    binding_.keep(call.shared());
    failing_.fail(failure_of(error));
    call.work->finish(why);
    return true;
  }
}

void OrderedCalls::drain(Gate::Lock& lock, const Interrupt& interrupt) {
  while (!calls_.empty()) {
    const auto last = calls_.back()->work;
    lock.unlock();
    while (!last->is_done_within(kLookEvery))
      if (interrupt) interrupt();
    gate_.enter_again(lock, interrupt);
  }
  gate_.refuse_if_failed();
}

void OrderedCalls::end_all(const std::exception_ptr& error) {
  for (auto& call : calls_) {
    binding_.keep(call->shared());
    call->work->finish(error);
  }
  calls_.clear();
}

std::string OrderedCalls::waits_for(const Work& work) const {
  for (const auto& call : calls_) {
    if (call->work.get() != &work) continue;
    const BoundCall& front = *calls_.front();
    if (!front.running) return "its turn";
    return (call.get() == &front ? "" : "the call before it, which waits for ") +
           names_of(front.call().awaited_peers()) + " in " + waits_.describe(front.call(), -1);
  }
  return {};
}

}  // namespace lanecast
