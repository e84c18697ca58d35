// SPDX-License-Identifier: Apache-2.0
// Where a rank's own share is sent from: the caller's input, or the output that it is copied to.
#pragma once

#include "runtime/bound/layout.h"
#include "runtime/wires/router.h"

namespace lanecast {

/// Is the share better copied first, and sent from the output? One receiver alone gets it, which may read it, and it
/// has 2 to 8 MiB. Not if the lane's timings have shown that the receiver is far: it would fetch from this core's cache
/// what lies in its own, the input that it has read before.
///
/// Reading small pages of another process takes two to three times as long as reading huge ones, and of such inputs few
/// pages are huge where those of the larger output are: numpy asks for them from 4 MiB on, and a buffer's ends stay
/// small. Shorter shares, and longer ones whose inputs have huge pages too, gain nothing that makes up for the wait.
bool sends_from_output(const Plan& plan, const Shape& shape, Router& router);

}  // namespace lanecast
