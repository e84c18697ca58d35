// SPDX-License-Identifier: Apache-2.0
// Which send meets which receive, and do they agree on what they carry.
#include <algorithm>
#include <tuple>

#include "plan/verify.h"

namespace lanecast {
namespace {

std::string where(const Plan& plan, std::uint32_t step) {
  return "rank " + std::to_string(plan.rank) + " " + describe(plan, step);
}

Pieces carried(const Plan& plan, const Step& step) {
  const auto blocks = step.kind == StepKind::send ? plan.src(step) : plan.dst(step);
  return pieces_of(blocks.data(), blocks.data() + blocks.size());
}

void match_messages(const std::vector<Plan>& plans, Matching& matching) {
  // Posts of each rank, by (peer, is it a send, ordinal).
  using Key = std::tuple<int, bool, std::uint32_t>;
  std::vector<std::vector<std::pair<Key, std::uint32_t>>> posts(plans.size());
  for (const Plan& plan : plans) {
    auto& mine = posts[plan.rank];
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i)
      if (const Step& s = plan.steps[i]; talks(s)) mine.push_back({{s.peer, s.kind == StepKind::send, s.ordinal}, i});
    std::sort(mine.begin(), mine.end());
    for (std::size_t k = 1; k < mine.size(); ++k)
      if (mine[k].first == mine[k - 1].first) throw PlanError(where(plan, mine[k].second) + ": posts a message twice");
  }
  for (const Plan& plan : plans)
    for (const auto& [key, i] : posts[plan.rank]) {
      const auto [peer, sends, ordinal] = key;
      const auto& theirs = posts[peer];
      const std::pair<Key, std::uint32_t> wanted{{plan.rank, !sends, ordinal}, 0};
      const auto found = std::lower_bound(theirs.begin(), theirs.end(), wanted);
      if (found == theirs.end() || found->first != wanted.first)
        throw PlanError(where(plan, i) + ": message " + std::to_string(ordinal) + " has no counterpart on rank " +
                        std::to_string(peer));
      matching.partner[plan.rank][i] = found->second;
      if (!sends) continue;
      if (carried(plan, plan.steps[i]) != carried(plans[peer], plans[peer].steps[found->second]))
        throw PlanError(where(plan, i) + ": the receiver expects other pieces, " + where(plans[peer], found->second));
    }
}

}  // namespace

Matching match(const std::vector<Plan>& plans) {
  Matching matching;
  for (const Plan& plan : plans) matching.partner.emplace_back(plan.steps.size(), Matching::kNone);
  match_messages(plans, matching);
  match_groups(plans, matching);
  return matching;
}

}  // namespace lanecast
