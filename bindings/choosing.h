// SPDX-License-Identifier: Apache-2.0
// What a communicator says of its choices, to Python.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "runtime/communicator/communicator.h"
#include "select/explain.h"

namespace lanecast {

nanobind::list to_list(const std::vector<Choice>& choices);
nanobind::dict to_dict(const Explanation& explanation);
void bind_choosing(nanobind::class_<Communicator>& communicator);

}  // namespace lanecast
