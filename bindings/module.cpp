// SPDX-License-Identifier: Apache-2.0
// The Python extension lanecast._core.
#include <nanobind/nanobind.h>

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Lanecast.";
  m.attr("VERSION") = LANECAST_VERSION;
}
