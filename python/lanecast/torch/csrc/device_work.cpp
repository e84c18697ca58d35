// SPDX-License-Identifier: Apache-2.0
#include "device_work.h"

#include <c10/core/StreamGuard.h>

#include <thread>
#include <utility>

#include "engine.h"
#include "process_end.h"
#include "signals.h"
#include "watcher.h"

namespace lanecast_torch {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};

/// torch 2.11 does not know, and then nobody asks about a captured work.
template <class Impl>
bool is_capturing(const Impl& impl, const c10::Stream& stream) {
  if constexpr (requires { impl.isStreamCapturing(stream); })
    return impl.isStreamCapturing(stream);
  else
    return false;
}

c10::EventFlag flag(bool timed) { return timed ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT; }

}  // namespace

DeviceWork::DeviceWork(const Call& call, std::shared_ptr<Engine> engine, c10::Stream stream, Wait wait)
    : Work(call, {stream.device()}),
      engine_(std::move(engine)),
      stream_(stream),
      wait_(wait),
      done_(std::make_shared<c10::Event>(stream.device_type(), flag(timed_))) {
  if (timed_) started_.emplace(stream.device_type(), flag(true));
}

DeviceWork::~DeviceWork() {
  // Nobody has waited: others get the memory when the call has let go of it.
  const c10::impl::VirtualGuardImpl impl(stream_.device_type());
  try {
    for (const at::Tensor& tensor : kept_) impl.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  } catch (const std::exception& error) {
    TORCH_WARN("lanecast: ", error.what());
  }
}

c10::Stream DeviceWork::current_stream() const {
  return c10::impl::VirtualGuardImpl(stream_.device_type()).getStream(stream_.device());
}

void DeviceWork::launch(const std::function<void(Work&)>& start) {
  const bool beside = stream_ != current_stream();
  if (beside) {
    c10::Event behind(stream_.device_type());
    behind.record(current_stream());
    behind.block(stream_);
  }
  const c10::StreamGuard guard(stream_);
  if (started_) started_->record(stream_);
  start(*this);
  arrive();
  done_->record(stream_);
  captured_ = is_capturing(c10::impl::VirtualGuardImpl(stream_.device_type()), stream_);
  if (!captured_) engine_->enqueued(stream_, done_);
  if (!beside) kept_.clear();                     // whoever gets the memory next uses it behind the call
  future_->markCompleted(c10::IValue(outputs_));  // as NCCL's: callbacks run now, on streams behind the call
  if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
  if (captured_ || !timed_ || !watch_->hook()) return;
  const std::lock_guard lock(mutex_);
  await_end();
}

void DeviceWork::await_end() {
  TORCH_CHECK(!captured_, "lanecast: a call that a graph has captured has no end of its own");
  if (std::exchange(awaited_, true)) return;
  pending_in_watch_.emplace(watch_);
  Watcher::instance().add_of_gpu([self = c10::intrusive_ptr<DeviceWork>::reclaim_copy(this)] {
    std::exception_ptr error;
    try {
      if (!self->isCompleted()) return false;
      error = self->exception();
    } catch (...) {  // a device that has failed answers no more
      error = std::current_exception();
    }
    self->conclude(error);
    return true;
  });
}

float DeviceWork::measured_until(const Work& last) const {
  const auto& other = static_cast<const DeviceWork&>(last);
  TORCH_CHECK(!captured_ && other.done_->query(), "lanecast: getDuration: this call is still under way, or captured");
  return static_cast<float>(started_->elapsedTime(*other.done_));
}

void DeviceWork::start(Engine& engine, const lanecastCall_t& call, std::chrono::milliseconds timeout) {
  engine.enqueue(call, stream_, timeout);
}

bool DeviceWork::isCompleted() {
  const std::lock_guard lock(mutex_);
  if (completed_ || !(captured_ || done_->query())) return completed_;
  completed_ = true;
  if (!captured_ && !exception_) exception_ = engine_->device_error();
  return true;
}

void DeviceWork::synchronize() {
  done_->block(current_stream());
  {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }
  raise_device_error();
}

void DeviceWork::raise_device_error() {
  const std::exception_ptr error = engine_->device_error();
  if (!error) return;
  {
    const std::lock_guard lock(mutex_);
    if (!completed_) exception_ = error;
  }
  std::rethrow_exception(error);
}

bool DeviceWork::wait(std::chrono::milliseconds timeout) {
  synchronize();
  if (wait_ == Wait::host || timeout != kNoTimeout) wait_on_host(timeout);
  return true;
}

void DeviceWork::wait_on_host(std::chrono::milliseconds timeout) {
  const Blocks blocks;
  const auto begin = std::chrono::steady_clock::now();
  Signals::Ear ear;
  while (!isCompleted()) {
    raise_device_error();
    ear.hear();
    TORCH_CHECK_WITH(DistBackendError, timeout == kNoTimeout || std::chrono::steady_clock::now() - begin < timeout,
                     "lanecast: Timed out waiting: ", c10d::opTypeToString(opType_), " of rank ", rank_,
                     " has been under way on its GPU for ", timeout.count(), " ms; it goes on");
    std::this_thread::sleep_for(kBetweenLooks);
  }
  if (const std::exception_ptr error = exception()) std::rethrow_exception(error);
}

}  // namespace lanecast_torch
