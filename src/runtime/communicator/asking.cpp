// SPDX-License-Identifier: Apache-2.0
// The verbs of a communicator: what is asked of it comes in by the gate and goes to the part that does it.
#include "base/error.h"
#include "runtime/communicator/parts.h"

namespace lanecast {
namespace {

template <class... Each>
struct By : Each... {
  using Each::operator()...;
};

}  // namespace

bool Communicator::Parts::run_alone(const HostRequest& request, const Interrupt& interrupt) {
  return std::visit(By{[&](const Call& call) {
                         if (!calls.empty()) return false;
                         calls.run_now(binding.prepare(call), call.in, call.out, interrupt);
                         return true;
                       },
                       [&](const std::shared_ptr<BoundCall>& call) {
                         gate.refuse_if_failed();
                         if (!calls.empty()) return false;
                         calls.run_now(call->execution, call->in, call->out, interrupt);
                         return true;
                       },
                       [&](Transfers transfers) {
                         messages.check_all(transfers);
                         if (!calls.empty()) return false;
                         messages.run_now(transfers, interrupt);
                         return true;
                       },
                       [&](BarrierRequest) { return run_alone(binding.barrier(), interrupt); }},
                    request);
}

std::shared_ptr<Work> Communicator::Parts::queue(const HostRequest& request, const OrderedCalls::CallTurn& turn) {
  return std::visit(By{[&](const Call& call) {
                         const std::shared_ptr<BoundCall> bound = binding.bind(call);
                         calls.queue(bound, turn);
                         return bound->work;
                       },
                       [&](const std::shared_ptr<BoundCall>& call) {
                         gate.refuse_if_failed();
                         if (!call->work->done())
                           throw UsageError("rank " + std::to_string(ground.rank()) +
                                            ": start: this call is under way; wait for it first");
                         calls.queue(call, turn);
                         return call->work;
                       },
                       [&](Transfers transfers) {
                         messages.check_all(transfers);
                         return messages.start(transfers, turn.timeout_s);
                       },
                       [&](BarrierRequest) { return queue(binding.barrier(), turn); }},
                    request);
}

void Communicator::Parts::run_beside_others(const HostRequest& request, const Interrupt& interrupt,
                                            const BesideOthers& beside) {
  if (beside.timeout_s) waits.check_timeout(*beside.timeout_s);
  std::shared_ptr<Work> work;
  {
    Gate::Lock lock = gate.enter(interrupt);
    work = queue(request, {lock, beside.timeout_s.value_or(waits.timeout_s()), interrupt});
  }
  rounds.advance_until_done(*work, interrupt);
}

void Communicator::Parts::run_blocked(const HostRequest& request, const Interrupt& interrupt) {
  {
    const Gate::Lock lock = gate.enter(interrupt);
    if (run_alone(request, interrupt)) return;
  }
  rounds.wait_or_fail(*start(request, interrupt), interrupt);
}

std::shared_ptr<Work> Communicator::Parts::start(const HostRequest& request, const Interrupt& interrupt) {
  std::shared_ptr<Work> work;
  {
    Gate::Lock lock = gate.enter();
    gate.refuse_without_threads();
    work = queue(request, {lock, waits.timeout_s(), interrupt});
  }
  rounds.hand_to_thread();
  return work;
}

void Communicator::run(const HostRequest& request, const Interrupt& interrupt, std::optional<BesideOthers> beside) {
  if (beside) return parts_->run_beside_others(request, interrupt, *beside);
  if (!std::holds_alternative<BarrierRequest>(request)) return parts_->run_blocked(request, interrupt);
  const std::string name = "barrier, an all-gather of a byte each: ";
  try {
    parts_->run_blocked(request, interrupt);
  } catch (const TimeoutError& error) {
    throw TimeoutError(name + error.what());
  } catch (const TransportError& error) {
    throw TransportError(name + error.what());
  }
}

std::shared_ptr<Work> Communicator::start(const HostRequest& request, const Interrupt& interrupt) {
  return parts_->start(request, interrupt);
}

std::shared_ptr<DeviceWork> Communicator::enqueue(const GpuRequest& request, const OnStream& where) {
  return parts_->gpu.enqueue(request, where);
}

void Communicator::wait(Work& work, const Interrupt& interrupt) { ProgressRounds::wait(work, interrupt); }

std::string Communicator::waits_for(const Work& work) {
  // Not for long: a call of another thread may be in until its peers come.
  const Gate::Lock lock = parts_->gate.try_enter_soon();
  if (!lock) return parts_->ground.log.waiting();
  return parts_->messages.waits_for(work).value_or(parts_->calls.waits_for(work));
}

bool Communicator::arrived(int peer, int tag) {
  const Gate::Lock lock = parts_->gate.enter();
  return parts_->messages.arrived(peer, tag);
}

std::shared_ptr<BoundCall> Communicator::bind(const Call& call) {
  const Gate::Lock lock = parts_->gate.enter();
  std::shared_ptr<BoundCall> bound = parts_->binding.bind(call);
  bound->work->finish(nullptr);
  return bound;
}

std::shared_ptr<BoundCall> Communicator::bind(const ComposedCall& call) {
  std::shared_ptr<BoundCall> bound = parts_->binding.bind(call);
  bound->work->finish(nullptr);
  return bound;
}

}  // namespace lanecast
