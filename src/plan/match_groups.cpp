// SPDX-License-Identifier: Apache-2.0
// Which steps of the members make up a group call, do they agree on it, and does everyone enter the calls in one order.
#include <algorithm>
#include <cstdint>
#include <map>

#include "plan/verify.h"

namespace lanecast {
namespace {

class GroupMatch {
 public:
  GroupMatch(const std::vector<Plan>& plans, Matching& matching) : plans_(plans), matching_(matching) {}

  void run() {
    for (const Plan& plan : plans_) enter(plan);
    for (std::size_t call = 0; call < order_.size(); ++call) agreed(call);
    ordered();
  }

 private:
  struct Order {
    const Ranks* ranks;
    std::vector<std::size_t> before, after;  // calls next to this one in the list of a member
    std::size_t waits_for = 0;               // of `before`, while all are put into one order
  };

  void enter(const Plan& plan) {
    std::size_t last = SIZE_MAX;
    for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].kind != StepKind::group) continue;
      const std::size_t call = call_of(plan, plan.steps[i]);
      const Ranks& ranks = *order_[call].ranks;
      const auto member = std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
      auto& steps = matching_.calls[call].step;
      if (member == static_cast<std::ptrdiff_t>(steps.size()) || steps[member] != Matching::kNone)
        throw PlanError(where(plan.rank, i) + ": enters a group call twice, or one it is no member of");
      steps[member] = i;
      matching_.partner[plan.rank][i] = static_cast<std::uint32_t>(call);
      if (last != SIZE_MAX) {
        order_[last].after.push_back(call);
        order_[call].before.push_back(last);
      }
      last = call;
    }
  }

  std::size_t call_of(const Plan& plan, const Step& step) {
    const auto [at, fresh] = calls_.try_emplace({plan.groups[step.group].ranks, step.ordinal}, order_.size());
    if (fresh) {
      const Ranks& ranks = at->first.first;
      order_.push_back({&ranks, {}, {}});
      matching_.calls.push_back({std::vector<std::uint32_t>(ranks.size(), Matching::kNone)});
    }
    return at->second;
  }

  void agreed(std::size_t call) const {
    const Ranks& ranks = *order_[call].ranks;
    const auto& steps = matching_.calls[call].step;
    const auto entered = [](std::uint32_t step) { return step != Matching::kNone; };
    const std::size_t first = std::find_if(steps.begin(), steps.end(), entered) - steps.begin();
    const Plan& one = plans_[ranks[first]];
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      if (!entered(steps[k]))
        throw PlanError(where(one.rank, steps[first]) + ": rank " + std::to_string(ranks[k]) +
                        " never enters this call");
      const Group& mine = group_of(ranks[k], steps[k]);
      const bool in_pairs = mine.kind == Kind::all_to_all;
      for (std::size_t j = first; j <= (in_pairs ? k : first); ++j)
        if (!agree(group_of(ranks[j], steps[j]), j, mine, k))
          throw PlanError(where(ranks[k], steps[k]) + ": disagrees with " + where(ranks[j], steps[j]));
    }
  }

  const Group& group_of(int rank, std::uint32_t step) const {
    return plans_[rank].groups[plans_[rank].steps[step].group];
  }

  /// Do two members mean the same call? Of an all-to-all each knows what it sends and receives, and no more.
  static bool agree(const Group& a, std::size_t me, const Group& b, std::size_t other) {
    if (a.kind != Kind::all_to_all || b.kind != a.kind) return a == b;
    const std::size_t members = a.ranks.size();
    return a.ranks == b.ranks && a.own[other] == b.own[members + me] && a.own[members + other] == b.own[me];
  }

  /// Members that enter two calls in different orders would each wait in one of them for the other.
  void ordered() {
    std::vector<std::size_t> ready;
    for (std::size_t call = 0; call < order_.size(); ++call) {
      order_[call].waits_for = order_[call].before.size();
      if (order_[call].waits_for == 0) ready.push_back(call);
    }
    std::size_t done = 0;
    for (; !ready.empty(); ++done) {
      const std::size_t call = ready.back();
      ready.pop_back();
      for (std::size_t next : order_[call].after)
        if (--order_[next].waits_for == 0) ready.push_back(next);
    }
    if (done == order_.size()) return;

    const auto waits = [&](std::size_t call) { return order_[call].waits_for > 0; };
    std::size_t call = 0;
    while (!waits(call)) ++call;
    for (std::size_t hop = 0; hop < order_.size(); ++hop)  // backwards from any of the rest one ends up in a circle
      call = *std::find_if(order_[call].before.begin(), order_[call].before.end(), waits);
    throw PlanError(where(order_[call].ranks->front(), matching_.calls[call].step.front()) +
                    ": the members enter their group calls in orders that form a circle");
  }

  std::string where(int rank, std::uint32_t step) const {
    return "rank " + std::to_string(rank) + " " + describe(plans_[rank], step);
  }

  const std::vector<Plan>& plans_;
  Matching& matching_;
  std::map<std::pair<Ranks, std::uint32_t>, std::size_t> calls_;
  std::vector<Order> order_;
};

}  // namespace

void match_groups(const std::vector<Plan>& plans, Matching& matching) { GroupMatch(plans, matching).run(); }

}  // namespace lanecast
