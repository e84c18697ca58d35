// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "bindings.h"
#include "plan/verify.h"

namespace nb = nanobind;

namespace lanecast {

void bind_errors(nb::module_& m) {
  // Tried newest first, so the base comes first and PlanError after its own base.
  const auto error = nb::exception<Error>(m, "Error", PyExc_RuntimeError);
  nb::exception<UsageError>(m, "UsageError", error);
  nb::exception<TransportError>(m, "TransportError", error);
  nb::exception<TimeoutError>(m, "TimeoutError", error);
  const auto internal = nb::exception<InternalError>(m, "InternalError", error);
  nb::exception<PlanError>(m, "PlanError", internal);
}

}  // namespace lanecast
