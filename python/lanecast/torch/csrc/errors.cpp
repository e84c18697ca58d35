// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <c10/util/Exception.h>

#include <string_view>

#include "signals.h"

namespace lanecast_torch {
namespace {

// By these words programs tell gloo's timeouts from other errors.
constexpr const char* kTimedOut = "Timed out waiting: ";

}  // namespace

void check(lanecastResult_t result, const std::string& text) {
  Signals::rethrow_kept();
  TORCH_CHECK_VALUE(result != lanecastUsageError, "lanecast: ", text);
  TORCH_CHECK_WITH(DistBackendError, result != lanecastTimeoutError, "lanecast: ", kTimedOut, text);
  TORCH_CHECK_WITH(DistBackendError, result == lanecastSuccess, "lanecast: ", text);
}

std::exception_ptr exception_for(lanecastResult_t result, const std::string& text) {
  try {
    check(result, text);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

c10d::WorkResult result_for(const std::exception_ptr& error) {
  if (!error) return c10d::WorkResult::SUCCESS;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    const bool timed_out = std::string_view(thrown.what()).find(kTimedOut) != std::string_view::npos;
    return timed_out ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
  } catch (...) {
    return c10d::WorkResult::UNKNOWN;
  }
}

}  // namespace lanecast_torch
