// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/launched_calls.h"

#include <utility>

#include "runtime/communicator/waits.h"
#include "runtime/gpu/between_hosts/between_hosts.h"

namespace lanecast {

LaunchedCalls::LaunchedCalls(const Footing& footing, CallBinder& binding)
    : ground_(footing.ground),
      gate_(footing.gate),
      failing_(footing.failing),
      waits_(footing.waits),
      binding_(binding) {
  failing_.also_ends([this](const std::exception_ptr& error) { end_all(error); });
}

void LaunchedCalls::open(BetweenHosts& device, std::function<void()> raise_fault) {
  device_ = &device;
  raise_fault_ = std::move(raise_fault);
  device.launches().follow();
  waits_.also_moves([this] {
    const bool moved = advance();
    if (gate_.failure()) raise(gate_.failure());
    return moved;
  });
}

std::shared_ptr<Work> LaunchedCalls::look_after(std::shared_ptr<OrderedCall> on_gpu) {
  const auto call = BoundCall::of_device(std::move(on_gpu), waits_.timeout_s());
  ground_.shown.starts(call->work);
  enqueued_.push_back(call);
  return call->work;
}

std::shared_ptr<BoundCall> LaunchedCalls::next() {
  const auto captured = device_->launches().next();
  if (!captured) return nullptr;
  if (*captured != 0) return BoundCall::of_device(device_->captured().turn_to(*captured), waits_.timeout_s());
  if (enqueued_.empty()) throw InternalError("the device has begun a launch that the host has not enqueued");
  std::shared_ptr<BoundCall> call = enqueued_.front();
  enqueued_.pop_front();
  return call;
}

bool LaunchedCalls::move() {
  bool moved = true;
  if (!under_way_) {
    under_way_ = next();
    if (!under_way_) return false;
    OrderedCall& call = under_way_->call();
    ground_.shown.waits_for(under_way_->deadline.timeout_s);
    failing_.heed_at(trace_clock_ns(), [] { return "a launch on its GPU"; });
    waits_.with_reasons(call,
                        [&] { call.start(nullptr, nullptr, waits_.agreement().begin_launched(call.signature())); });
  } else {
    moved = waits_.advance(under_way_->call());
  }
  const auto now = std::chrono::steady_clock::now();
  if (moved) {
    under_way_->deadline.last_progress = now;
  } else if (now - looked_ >= kLookEvery) {
    looked_ = now;
    waits_.look_at(under_way_->call(), under_way_->deadline, Waits::Caller::free);
  }
  if (!under_way_->call().finished()) return moved;
  under_way_->work->finish(nullptr);
  under_way_.reset();
  device_->captured().expect(device_->launches().next_number());
  return true;
}

void LaunchedCalls::look_now_and_then() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  raise_fault_();
  if (!enqueued_.empty()) failing_.heed("a launch on its GPU");
}

bool LaunchedCalls::advance() {
  if (!is_open() || gate_.failure()) return false;
  try {
    const bool moved = move();
    if (!moved && !under_way_) look_now_and_then();
    return moved;
  } catch (const std::exception& error) {
    // As in OrderedCalls::advance().
    const std::exception_ptr why = std::current_exception();
    const std::shared_ptr<BoundCall> failed = std::exchange(under_way_, nullptr);
    if (failed) binding_.keep(failed->shared());
    failing_.fail(failure_of(error));
    if (failed) failed->work->finish(why);
    return true;
  }
}

bool LaunchedCalls::empty() const {
  return !under_way_ && enqueued_.empty() && (!is_open() || gate_.failure() || !device_->launches().next());
}

bool LaunchedCalls::listens() const { return is_open() && !gate_.failure() && device_->captured().may_run(); }

void LaunchedCalls::end_all(const std::exception_ptr& error) {
  const auto end = [&](const std::shared_ptr<BoundCall>& call) {
    binding_.keep(call->shared());
    call->work->finish(error);
  };
  if (under_way_) end(std::exchange(under_way_, nullptr));
  for (const auto& call : enqueued_) end(call);
  enqueued_.clear();
}

}  // namespace lanecast
