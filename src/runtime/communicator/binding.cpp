// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/binding.h"

#include "base/error.h"
#include "runtime/watch/surprises.h"

namespace lanecast {

CallBinder::CallBinder(const Ground& ground, Gate& gate, const Choosing& choosing)
    : ground_(ground), gate_(gate), choosing_(choosing), tokens_(static_cast<std::size_t>(ground.size())) {
  forget_plans();
}

void CallBinder::forget_plans() {
  plans_ = std::make_unique<PlanCache>(ground_.topology, ground_.rank(), *ground_.router, ground_.options.executor);
}

std::shared_ptr<Execution> CallBinder::prepare(Call call) {
  const bool in_place = check(call, ground_.rank(), ground_.size());
  call.reproducible = choosing_.in_rank_order(call);
  gate_.refuse_if_failed();
  if (auto known = plans_->find(call, in_place)) return known;
  try {
    const Choice choice = choosing_.chosen(call);
    const auto make = [&] { return plans_->make(call, in_place, choice); };
    // Planning judges the algorithm, and what a call asks for was judged before.
    auto made = call.algorithm.empty() ? naming("LANECAST_ALGORITHM", ground_.options, make) : make();
    if ((choice.measured || choice.timed) && choice.decided_by != Decider::pinned && call.chunks == 0 &&
        ground_.options.chunks == 0 && !call.is_barrier)
      made->expectation() = Surprises::expecting(choice.seconds);
    return made;
  } catch (const UsageError& error) {  // planning knows no rank
    throw UsageError("rank " + std::to_string(ground_.rank()) + ": " + std::string(name_of(call.kind)) + ": " +
                     error.what());
  }
}

std::shared_ptr<BoundCall> CallBinder::bind(const Call& call) {
  auto bound = std::make_shared<BoundCall>();
  bound->execution = prepare(call);
  bound->in = static_cast<const std::byte*>(call.in);
  bound->out = static_cast<std::byte*>(call.out);
  return bound;
}

Call CallBinder::barrier() {
  // An all-gather of one byte each: nobody has all bytes before everybody has come. Few bytes make the selector look
  // at rounds alone: Bruck's, which are a dissemination barrier, on each level, or everyone to everyone where few are.
  Call call;
  call.kind = Kind::all_gather;
  call.is_barrier = true;
  call.count = 1;
  call.dtype = DType::uint8;
  call.in = &tokens_[ground_.rank()];
  call.out = tokens_.data();
  return call;
}

}  // namespace lanecast
