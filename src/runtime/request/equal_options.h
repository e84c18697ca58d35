// SPDX-License-Identifier: Apache-2.0
// Options that let the ranks' calls fit together only where all ranks have the same.
#pragma once

#include "base/bootstrap.h"
#include "runtime/request/options.h"

namespace lanecast {

/// The options, settled and placed, if all ranks have equal ones; else throws UsageError on every rank. Collective.
CommunicatorOptions equal_on_all(const Bootstrap& bootstrap, CommunicatorOptions options);

}  // namespace lanecast
