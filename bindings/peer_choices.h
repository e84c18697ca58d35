// SPDX-License-Identifier: Apache-2.0
// What is chosen among the GPUs of a host, for tests.
#pragma once

#include <nanobind/nanobind.h>

namespace lanecast {

void bind_peer_choices(nanobind::module_& m);

}  // namespace lanecast
