// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/order_of_calls.h"

#include <utility>

#include "device/gpu/beside_captures.h"

namespace lanecast {
OrderOfCalls::OrderOfCalls(std::shared_ptr<gpu::Device> device)
    : device_(std::move(device)), own_(device_), ordering_(device_), last_(device_) {}

void OrderOfCalls::order(gpu::Stream before, gpu::Stream after) {
  const gpu::Device::Current current(*device_);
  device_->check(device_->driver().cuEventRecord(ordering_.get(), before), "cuEventRecord");
  wait(ordering_, after);
}

gpu::OwnedEvent OrderOfCalls::mark(gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  gpu::OwnedEvent event(device_);
  device_->check(device_->driver().cuEventRecord(event.get(), stream), "cuEventRecord");
  return event;
}

void OrderOfCalls::wait(const gpu::OwnedEvent& event, gpu::Stream stream) const {
  const gpu::Device::Current current(*device_);
  device_->check(device_->driver().cuStreamWaitEvent(stream, event.get(), 0), "cuStreamWaitEvent");
}

bool OrderOfCalls::passed(const gpu::OwnedEvent& event) const {
  const gpu::Device::Current current(*device_);
  const gpu::BesideCaptures beside(device_->driver());
  const int result = device_->driver().cuEventQuery(event.get());
  if (result != gpu::kNotReady) device_->check(result, "cuEventQuery");
  return result == gpu::kSuccess;
}

bool OrderOfCalls::capturing(gpu::Stream stream) const { return device_->captures(stream); }

std::uint64_t OrderOfCalls::begin_turn(gpu::Stream stream) const {
  const std::uint64_t number = device_->driver().number_of(stream);
  const bool follows = number != 0 && number == last_stream_;  // a stream keeps its order by itself
  if (used_ && !follows) wait(last_, stream);
  return number;
}

void OrderOfCalls::end_turn(gpu::Stream stream, std::uint64_t number) {
  device_->check(device_->driver().cuEventRecord(last_.get(), stream), "cuEventRecord");
  last_stream_ = number;
  used_ = true;
}

}  // namespace lanecast
