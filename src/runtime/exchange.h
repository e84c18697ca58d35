// SPDX-License-Identifier: Apache-2.0
// The bootstrap of ranks that have transports already: no launcher needed, and every wait has a deadline.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "runtime/router.h"

namespace lanecast {

/// ranks: members by their ranks in the router; me: this rank's place among them; what: they do, for errors. Must not
/// run beside other messages of the router. After an error the router is of no further use.
Bootstrap bootstrap_over(std::shared_ptr<Router> router, std::vector<int> ranks, int me, double timeout_s,
                         const std::string& what);

}  // namespace lanecast
