// SPDX-License-Identifier: Apache-2.0
// Calls on a communicator, for the binding of the communicator itself.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/communicator/communicator.h"

namespace lanecast {

/// Throws what a signal's handler has raised, such as Ctrl-C's.
void raise_signals();

/// Counts of a call without counts, by the elements of its buffers; false where they do not fit.
bool count_by_sizes(Call& call, const Communicator& c, std::size_t inputs, std::size_t outputs);

void bind_calls(nanobind::module_& m, nanobind::class_<Communicator>& communicator);

void bind_gpu(nanobind::module_& m, nanobind::class_<Communicator>& communicator);

}  // namespace lanecast
