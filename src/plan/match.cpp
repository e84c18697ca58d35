// SPDX-License-Identifier: Apache-2.0
// Which send meets which receive, and do they agree on what they carry; the same for group calls.
#include <algorithm>
#include <map>

#include "plan/verify.h"
#include "plan/writer.h"

namespace lanecast {
namespace {

bool talks(const Step& s) {
  return s.kind == StepKind::send || s.kind == StepKind::recv || s.kind == StepKind::recv_reduce;
}

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

void match_groups(const std::vector<Plan>& plans, Matching& matching) {
  std::map<std::pair<Ranks, std::uint32_t>, std::size_t> calls;
  std::vector<std::size_t> left;                   // members that have not entered
  std::vector<std::vector<std::size_t>> follows;   // union of the members' orders
  std::vector<std::size_t> entered;                // how many orders a call is behind in
  for (const Plan& plan : plans) {
    std::size_t before = SIZE_MAX;
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
      const Step& step = plan.steps[i];
      if (step.kind != StepKind::group) continue;
      const Group& group = plan.groups[step.group];
      const auto [at, fresh] = calls.try_emplace({group.ranks, step.ordinal}, matching.calls.size());
      const std::size_t call = at->second;
      if (fresh) {
        matching.calls.push_back({std::vector<std::uint32_t>(group.ranks.size(), Matching::kNone)});
        left.push_back(group.ranks.size());
        follows.emplace_back();
        entered.push_back(0);
      }
      const auto member = std::find(group.ranks.begin(), group.ranks.end(), plan.rank) - group.ranks.begin();
      if (member == static_cast<std::ptrdiff_t>(group.ranks.size()) ||
          matching.calls[call].step[member] != Matching::kNone)
        throw PlanError(where(plan, i) + ": enters a group call twice, or one it is no member of");
      matching.calls[call].step[member] = i;
      matching.partner[plan.rank][i] = static_cast<std::uint32_t>(call);
      --left[call];
      if (before != SIZE_MAX) {
        follows[before].push_back(call);
        ++entered[call];
      }
      before = call;
    }
  }
  std::vector<std::size_t> ready;
  for (const auto& [key, call] : calls) {
    const Plan& first = plans[key.first[0]];
    if (left[call] != 0) throw PlanError("group call of rank " + std::to_string(first.rank) + " lacks members");
    for (std::size_t k = 1; k < key.first.size(); ++k) {
      const Plan& other = plans[key.first[k]];
      const std::uint32_t a = matching.calls[call].step[0], b = matching.calls[call].step[k];
      if (!(first.groups[first.steps[a].group] == other.groups[other.steps[b].group]))
        throw PlanError(where(other, b) + ": disagrees with " + where(first, a));
    }
    if (entered[call] == 0) ready.push_back(call);
  }
  std::size_t ordered = 0;
  for (; !ready.empty(); ++ordered) {
    const std::size_t call = ready.back();
    ready.pop_back();
    for (std::size_t next : follows[call])
      if (--entered[next] == 0) ready.push_back(next);
  }
  if (ordered != matching.calls.size()) throw PlanError("group calls: the members' orders form a circle");
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
