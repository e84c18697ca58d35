// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <c10/util/Exception.h>

namespace lanecast_torch {

void check(lanecastResult_t result, const std::string& text) {
  TORCH_CHECK_VALUE(result != lanecastUsageError, "lanecast: ", text);
  // In words by which programs tell gloo's timeouts from other errors.
  TORCH_CHECK_WITH(DistBackendError, result != lanecastTimeoutError, "lanecast: Timed out waiting: ", text);
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

}  // namespace lanecast_torch
