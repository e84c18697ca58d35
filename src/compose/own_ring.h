// SPDX-License-Identifier: Apache-2.0
// Trees or one chain of all ranks, where a composition runs among ranks that reach each other by links of their own.
#pragma once

#include <memory>
#include <vector>

#include "compose/machine.h"
#include "plan/composition.h"

namespace lanecast {

/// Of a rank's link to all others.
struct OwnLink {
  double hop_s, s_per_byte;
};

/// Shaping::ring for a composition whose parts have so many bytes, as neither ring nor hierarchy is named: a root that
/// sends the same to several ranks sends it once along a chain, which takes more hops. 1 where trees take no longer,
/// and where the topology has levels.
int ring_of_own_links(const std::shared_ptr<const Composition>& composition, const std::vector<std::size_t>& bytes,
                      const Topology& real, OwnLink link);

}  // namespace lanecast
