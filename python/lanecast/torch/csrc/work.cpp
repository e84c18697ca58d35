// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <typeinfo>
#include <utility>

#include "errors.h"
#include "watcher.h"

namespace lanecast_torch {

c10::intrusive_ptr<c10::ivalue::Future> future_of_result() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::AnyEnumType::get());
}

c10::intrusive_ptr<c10::ivalue::Future> future_of_tensors(std::vector<c10::Device> devices) {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

Work::Work(const Call& call, std::vector<c10::Device> devices)
    : c10d::Work(call.rank, call.type, call.profiling_title.c_str(), call.inputs),
      watch_(call.watch),
      timed_(watch_->timed()),
      begin_(timed_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point()),
      outputs_(call.outputs),
      future_(future_of_tensors(std::move(devices))),
      sequence_(call.sequence) {
  for (const at::Tensor& tensor : call.inputs) keep(tensor);
  for (const at::Tensor& tensor : call.outputs) keep(tensor);
}

void Work::deliver(const SideBySide& arrived) {
  keep(arrived.buffer());
  if (arrived.copies()) on_arrival([arrived] { arrived.unpack(); });
}

void Work::arrive() {
  // As the core's writes, these are none of autograd's affair, and the tensors may be those of an inference.
  const at::AutoDispatchBelowADInplaceOrView writes;
  for (const auto& step : on_arrival_) step();
  on_arrival_.clear();
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFutureResult() {
  const std::lock_guard lock(mutex_);
  if (future_result_) return future_result_;
  if (!result_) await_end();
  future_result_ = future_of_result();
  if (result_) future_result_->markCompleted(static_cast<std::int64_t>(*result_));
  return future_result_;
}

float Work::milliseconds_until(const Work& last) const {
  TORCH_CHECK(timed_ && last.timed_,
              "lanecast: getDuration: this call was not timed: have the group's _enable_collectives_timing() ",
              "called before");
  TORCH_CHECK(typeid(*this) == typeid(last),
              "lanecast: getDuration: of calls of the CPU's tensors and a GPU's at once");
  return measured_until(last);
}

void Work::conclude(const std::exception_ptr& error) {
  const c10d::WorkResult result = result_for(error);
  c10::intrusive_ptr<c10::ivalue::Future> asked;
  {
    const std::lock_guard lock(mutex_);
    result_ = result;
    asked = future_result_;
  }
  if (asked) asked->markCompleted(static_cast<std::int64_t>(result));
  if (!error && timed_ && watch_->hook())
    call_hook();
  else
    pending_in_watch_.reset();
}

void Work::call_hook() {
  const auto finished = std::chrono::steady_clock::now();
  // By one thread for all, which may wait for Python's lock.
  Watcher::instance().add([self = c10::intrusive_ptr<Work>::reclaim_copy(this), finished] {
    try {
      const std::chrono::duration<float, std::milli> active(self->getDuration());
      if (const auto hook = self->watch_->hook())
        (*hook)(std::make_shared<c10d::WorkInfo>(self->opType_, self->sequence_, self->begin_, finished, active));
    } catch (const std::exception& error) {
      TORCH_WARN("lanecast: the hook for the end of calls: ", error.what());
    }
    self->pending_in_watch_.reset();
    return true;
  });
}

}  // namespace lanecast_torch
