// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/shown.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "base/quiet_thread.h"
#include "runtime/gpu/gpu_executor.h"

namespace lanecast {
namespace {

constexpr std::size_t kFewWorks = 64;  // kept before those that are done are looked for

}  // namespace

void Shown::opens(const std::shared_ptr<GpuExecutor>& executor) {
  const std::lock_guard lock(mutex_);
  executor_ = executor;
}

void Shown::starts(const std::shared_ptr<Work>& work) {
  const std::lock_guard lock(mutex_);
  works_.reserve(kFewWorks);
  if (works_.size() == works_.capacity())
    std::erase_if(works_, [&](const std::weak_ptr<Work>& each) {
      const std::shared_ptr<Work> kept = each.lock();
      return !kept || kept == work || kept->done();  // one that is made again and again is kept once
    });
  works_.push_back(work);
}

void Shown::refuse_if_given_up() const {
  if (!given_up_.load(std::memory_order_acquire)) return;  // pairs with give_up()
  const std::lock_guard lock(mutex_);
  throw TimeoutError(why_);
}

std::string Shown::call_under_way() const {
  if (std::string waiting = log_.waiting(); !waiting.empty()) return waiting;
  const std::vector<CallRecord> calls = log_.calls();
  if (calls.empty()) return "messages over " + router_->str();
  const CallRecord& call = calls.back();
  return std::string(name_of(call.kind)) + " by " + call.algorithm.data() + " over " + router_->str() + " (call " +
         std::to_string(call.sequence) + ")";
}

void Shown::give_up(double waited_s, const std::string& place) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", waited_s);
  const std::string why = "rank " + std::to_string(rank_) + " waited " + seconds + " s for " + place +
                          ", which has not given the thread back that moves messages, in " + call_under_way() +
                          "; a library that calls the GPU's driver waits there for kernels that wait for its messages: "
                          "is it handed the memory of GPUs (gpu_messages='direct'), or does it look for such memory?";
  std::vector<std::weak_ptr<Work>> works;
  std::shared_ptr<GpuExecutor> executor;
  {
    const std::lock_guard lock(mutex_);
    why_ = why;
    works.swap(works_);
    executor = executor_.lock();
  }
  given_up_.store(true, std::memory_order_release);  // pairs with refuse_if_given_up()
  // Stores alone: the kernels end, and the driver with them lets go of who waits for it.
  if (executor) executor->poison();
  // In a thread of its own, since the end of a call may call the program, and that wait for who waits for this thread.
  quiet_thread([works = std::move(works), error = std::make_exception_ptr(TimeoutError(why))] {
    for (const std::weak_ptr<Work>& each : works)
      if (const std::shared_ptr<Work> work = each.lock()) work->finish(error);
  }).detach();
}

}  // namespace lanecast
