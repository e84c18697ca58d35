// SPDX-License-Identifier: Apache-2.0
// What a program asks of a group beside its calls.
#include <gil.h>

#include <utility>

#include "backend.h"
#include "process_end.h"

namespace lanecast_torch {

void Backend::registerOnCompletionHook(Watch::Hook&& hook) {
  watch_->set_hook(std::move(hook));
  onCompletionHook_ = [](const std::shared_ptr<c10d::WorkInfo>&) {};  // by which torch knows that there is one
}

void Backend::waitForPendingWorks() {
  const lanecast::WithoutGil unlocked;
  const Blocks blocks;
  for (const auto& engine : engines()) engine->wait_until_idle();
  watch_->wait_until_none_is_pending();
}

c10d::ErrorType Backend::getError() {
  const lanecast::WithoutGil unlocked;
  for (const auto& engine : engines()) {
    const lanecastResult_t failure = engine->failure();
    if (failure == lanecastTimeoutError) return c10d::ErrorType::TIMEOUT;
    if (failure != lanecastSuccess && failure != lanecastUsageError) return c10d::ErrorType::COMM_ERROR;
  }
  return c10d::ErrorType::SUCCESS;
}

}  // namespace lanecast_torch
