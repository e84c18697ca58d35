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
  engine_->wait_until_idle();
  watch_->wait_until_none_is_pending();
  if (const BackendPtr messages = understudy_if_made("nccl")) messages->waitForPendingWorks();
}

c10d::ErrorType Backend::getError() {
  const lanecast::WithoutGil unlocked;
  switch (engine_->failure()) {
    case lanecastSuccess:
    case lanecastUsageError:
      return c10d::ErrorType::SUCCESS;
    case lanecastTimeoutError:
      return c10d::ErrorType::TIMEOUT;
    default:
      return c10d::ErrorType::COMM_ERROR;
  }
}

}  // namespace lanecast_torch
