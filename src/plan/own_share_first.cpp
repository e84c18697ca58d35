// SPDX-License-Identifier: Apache-2.0
#include "plan/own_share_first.h"

#include <algorithm>

#include "plan/builder.h"

namespace lanecast {
namespace {

bool holds(const Block& whole, const Block& b) { return whole.part == b.part && whole.lo <= b.lo && b.hi <= whole.hi; }

}  // namespace

std::optional<Plan> own_share_first(const Plan& plan) {
  // The stages of a composition's steps say what happens side by side; no step may leave its own.
  if (plan.collective.composition || plan.steps.empty() || plan.steps.back().kind != StepKind::copy) return {};
  const auto from = plan.src(plan.steps.back());
  if (!std::ranges::all_of(from, [](const Block& b) { return b.space == kIn; })) return {};

  Plan other = plan;
  std::ranges::rotate(other.steps, other.steps.end() - 1);
  bool sends = false;
  for (const Step& step : other.steps) {
    if (step.kind != StepKind::send) continue;
    for (Block& b : std::span(other.blocks).subspan(step.src.first, step.src.count)) {
      if (b.space != kIn || !std::ranges::any_of(from, [&](const Block& own) { return holds(own, b); })) continue;
      b.space = kOut;
      sends = true;
    }
  }
  if (!sends) return {};
  other.dependencies.clear();
  derive_dependencies(other);
  return other;
}

}  // namespace lanecast
