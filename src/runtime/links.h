// SPDX-License-Identifier: Apache-2.0
// What the cost model has to know of the machine, equal on every rank.
#pragma once

#include <string>
#include <vector>

#include "runtime/link_policy.h"
#include "runtime/link_times.h"
#include "runtime/surroundings.h"
#include "select/models.h"

namespace lanecast {

struct Links {
  std::vector<Link> by_level;       // the slowest that any rank sees; outermost level first
  std::vector<bool> between_hosts;  // by level: do any ranks of different hosts part there?
  std::vector<Overlap> overlaps;    // where it is known without measuring
  bool crowded = false;             // more ranks than cores on this host; not equal everywhere
};

/// Collective.
Links gather_links(const Surroundings& around, const Topology& topology, Router& router);

/// How the levels of a call between hosts overlap, by the outermost link.
std::vector<Overlap> overlaps_between_hosts(const Link& link);

/// The links with what was timed or is given of those between hosts in the place of what was assumed.
void replace_links(std::vector<Link>& links, const std::vector<bool>& between_hosts, const TimedLinks& timed);
void replace_links(std::vector<Link>& links, const std::vector<bool>& between_hosts, const LinkPolicy& given);

/// When they were timed, for people.
std::string in_words(const TimedLinks& timed);

}  // namespace lanecast
