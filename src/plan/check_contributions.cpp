// SPDX-License-Identifier: Apache-2.0
// Judges what a run of the strictest executor leaves in the outputs. Where a value is wrong, the run is repeated for
// that one place with exact sets, to name the culprits.
#include <optional>
#include <string>

#include "plan/flow.h"
#include "plan/verify.h"

namespace lanecast {
namespace {

std::string text(const std::map<int, int>& set) {
  std::string all = "{";
  for (const auto& [rank, times] : set)
    all += (all.size() > 1 ? ", " : "") + (rank < 0 ? "another operator's result" : std::to_string(rank)) +
           (times > 1 ? " ×" + std::to_string(times) : "");
  return all + "}";
}

/// "rank 1 step 3 of 4: …: leaves output part 0 of all_reduce by ring"
template <class Wrong>
std::string where(const Plan& plan, const Wrong& wrong) {
  const std::string rank = "rank " + std::to_string(plan.rank);
  const std::string output =
      "output " + describe(wrong.piece) + " of " + std::string(name_of(plan.collective.kind)) + " by " + plan.algorithm;
  if (wrong.content.step == Matching::kNone) return rank + ": no step writes " + output;
  return rank + " " + describe(plan, wrong.content.step) + ": leaves " + output;
}

class Proving {
 public:
  Proving(const std::vector<Plan>& plans, const Matching& matching)
      : plans_(plans),
        matching_(matching),
        grid_(plans, plans[0].collective.composition.get()),
        ranks_(static_cast<int>(plans.size())) {
    for (const Plan& plan : plans) memories_.emplace_back(plan, grid_);
  }

  void contributions() const {
    const auto wrong = first_wrong(Fingerprints(ranks_));
    if (!wrong) return;
    const Plan& plan = plans_[wrong->rank];
    const std::string place = where(plan, *wrong);
    if (wrong->content.step == Matching::kNone) throw PlanError(place);
    const auto &got = wrong->content.term, &expected = wrong->expected;
    if (got.value == expected.value && got.op != expected.op) throw PlanError(place + " added by another operator");
    if (got.value == expected.value)
      throw PlanError(place + (got.divisor > expected.divisor
                                   ? " divided for an average, but it is no sum"
                                   : " without saying that the sum is complete, so an average never divides"));
    const auto exact = first_wrong(ExactSets{}, wrong->piece);
    throw PlanError(
        place + " with contributions of ranks " +
        (exact ? text(exact->content.term.value) + ", expected " + text(exact->expected.value) : "unknown"));
  }

  void order() const {
    if (const auto wrong = first_wrong(Expressions(ranks_)))
      throw PlanError(where(plans_[wrong->rank], *wrong) +
                      " with another expression than one reduction of all contributions in rank order");
  }

 private:
  template <class Algebra>
  std::optional<typename Flow<Algebra>::Wrong> first_wrong(Algebra algebra, std::optional<Piece> only = {}) const {
    Flow<Algebra> flow({plans_, matching_, grid_, memories_}, std::move(algebra), only);
    const std::string stuck =
        simulate(plans_, matching_, UINT32_MAX, [&](int rank, std::uint32_t i) { flow.happens(rank, i); });
    if (!stuck.empty()) throw PlanError(stuck);
    return flow.first_wrong();
  }

  const std::vector<Plan>& plans_;
  const Matching& matching_;
  Grid grid_;
  std::vector<CellMemory> memories_;
  int ranks_;
};

}  // namespace

void check_contributions(const std::vector<Plan>& plans, const Matching& matching) {
  const Proving proving(plans, matching);
  proving.contributions();
  if (plans[0].collective.reproducible) proving.order();
}

}  // namespace lanecast
