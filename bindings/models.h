// SPDX-License-Identifier: Apache-2.0
// Predictions as Python sees them.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "select/choose.h"

namespace lanecast {

nanobind::list to_list(const std::vector<Choice>& choices);

}  // namespace lanecast
