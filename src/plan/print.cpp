// SPDX-License-Identifier: Apache-2.0
// Plans as text for people and for error messages.
#include "plan/plan.h"

namespace lanecast {
namespace {

constexpr std::string_view kStepNames[] = {"send", "recv", "recv_reduce", "copy", "reduce", "group"};

std::string list(std::span<const Block> blocks) {
  constexpr std::size_t kShown = 4;  // an error message stays readable where a message carries a hundred blocks
  std::string text;
  for (std::size_t k = 0; k < blocks.size() && k < kShown; ++k) text += (k ? ", " : "") + describe(blocks[k]);
  if (blocks.size() > kShown) text += ", … " + std::to_string(blocks.size() - kShown) + " more";
  return text;
}

std::string action(const Plan& plan, const Step& step) {
  std::string text{name_of(step.kind)};
  const std::string peer = std::to_string(step.peer);
  switch (step.kind) {
    case StepKind::send:
      return text + " to rank " + peer + " " + list(plan.src(step));
    case StepKind::recv:
      return text + " from rank " + peer + " " + list(plan.dst(step));
    case StepKind::recv_reduce:
      text += " from rank " + peer + " + " + list(plan.src(step)) + " -> " + list(plan.dst(step));
      break;
    case StepKind::copy:
      return text + " " + list(plan.src(step)) + " -> " + list(plan.dst(step));
    case StepKind::reduce:
      text +=
          " of " + std::to_string(step.sources) + " sources " + list(plan.src(step)) + " -> " + list(plan.dst(step));
      break;
    case StepKind::group: {
      if (!plan.has_group(step)) return text + " that does not exist";
      const Group& group = plan.groups[step.group];
      text += " " + std::string(name_of(group.kind)) + " among ranks ";
      for (std::size_t k = 0; k < group.ranks.size(); ++k) text += (k ? "," : "") + std::to_string(group.ranks[k]);
      text += " " + list(plan.src(step)) + " -> " + list(plan.dst(step));
      break;
    }
  }
  return step.completes ? text + " (complete)" : text;
}

}  // namespace

std::string_view name_of(StepKind kind) { return kStepNames[static_cast<int>(kind)]; }

std::string describe(const Plan& plan, std::size_t step) {
  return "step " + std::to_string(step) + " of " + std::to_string(plan.steps.size()) + ": " +
         action(plan, plan.steps[step]);
}

std::string describe(const Plan& plan) {
  std::string text{name_of(plan.collective.kind)};
  text += " by " + plan.algorithm + ", rank " + std::to_string(plan.rank) + " of " +
          std::to_string(plan.collective.size) +
          (has_root(plan.collective.kind) ? ", root " + std::to_string(plan.collective.root) : "") +
          (plan.collective.in_place ? ", in-place" : "") + ", " + std::to_string(plan.steps.size()) + " steps, " +
          std::to_string(plan.slots) + " scratch slots\n";
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    text += "  " + std::to_string(i) + "  " + action(plan, plan.steps[i]);
    const auto deps = plan.deps(plan.steps[i]);
    for (std::size_t k = 0; k < deps.size(); ++k) text += (k ? "," : "  after ") + std::to_string(deps[k]);
    text += '\n';
  }
  return text;
}

}  // namespace lanecast
