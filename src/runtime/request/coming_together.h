// SPDX-License-Identifier: Apache-2.0
// How long ranks wait for each other while a communicator is made, before they have agreed on its options.
#pragma once

#include "runtime/request/options.h"

namespace lanecast {

/// Given, or from the environment, or the default. What is faulty counts as unset here: all ranks refuse it later.
double timeout_to_begin_s(CommunicatorOptions options);

}  // namespace lanecast
