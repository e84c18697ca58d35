// SPDX-License-Identifier: Apache-2.0
#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Lanecast; use the package lanecast instead.";
  lanecast::bind_errors(m);
  lanecast::bind_topology(m);
  lanecast::bind_plan(m);
}
