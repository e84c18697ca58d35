// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/coming_together.h"

#include "base/error.h"

namespace lanecast {

double timeout_to_begin_s(CommunicatorOptions options) {
  try {
    if (options.from_environment) apply_environment(options);
    check(options);
  } catch (const UsageError&) {
    return kTimeout_s;
  }
  return options.timeout_s.value_or(kTimeout_s);
}

}  // namespace lanecast
