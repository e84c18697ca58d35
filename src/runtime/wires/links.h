// SPDX-License-Identifier: Apache-2.0
// What the cost model has to know of the machine, equal on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/wires/link_policy.h"
#include "runtime/wires/surroundings.h"
#include "select/models.h"

namespace lanecast {

struct Links {
  std::vector<Link> by_level;       // the slowest that any rank sees; outermost level first
  std::vector<bool> between_hosts;  // by level: do any ranks of different hosts part there?
  std::vector<Overlap> overlaps;    // where it is known without measuring
  bool crowded = false;             // more ranks than cores on this host; not equal everywhere
};

/// Of what such messages connect; see Link::filling.
double filling_of(std::string_view transport);

/// Collective.
Links gather_links(const Surroundings& around, const Topology& topology, Router& router);

/// What timing the links between hosts found, equal on all ranks.
struct TimedLinks {
  std::vector<std::optional<Link>> by_level;  // none where no two ranks that part there were timed
  double took_s = 0;                          // on the slowest rank
  std::int64_t at = 0;                        // seconds since 1970, by rank 0's clock
};

/// How the levels of a call between hosts overlap, by the outermost link.
std::vector<Overlap> overlaps_between_hosts(const Link& link);

/// The links with what was timed or is given of those between hosts in the place of what was assumed.
void replace_links(std::vector<Link>& links, const std::vector<bool>& between_hosts, const TimedLinks& timed);
void replace_links(std::vector<Link>& links, const std::vector<bool>& between_hosts, const LinkPolicy& given);

/// When they were timed, for people.
std::string in_words(const TimedLinks& timed);

}  // namespace lanecast
