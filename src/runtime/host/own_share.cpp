// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/own_share.h"

#include <algorithm>

namespace lanecast {
namespace {

constexpr std::size_t kLeastBytes = std::size_t{2} << 20, kTooManyBytes = std::size_t{8} << 20;

}  // namespace

bool sends_from_output(const Plan& plan, const Shape& shape, Router& router) {
  const auto sends_input = [&](const Step& step) {
    return step.kind == StepKind::send &&
           std::ranges::any_of(plan.src(step), [](const Block& b) { return b.space == kIn; });
  };
  if (!plan.groups.empty() || std::ranges::count_if(plan.steps, sends_input) != 1) return false;
  const Step& only = *std::ranges::find_if(plan.steps, sends_input);
  const Layout layout(plan, shape);
  std::size_t bytes = 0;
  for (const Block& b : plan.src(only)) bytes += layout.place(b, shape.chunk(0)).bytes;
  return bytes >= kLeastBytes && bytes < kTooManyBytes && router.to(only.peer).is_read_near(only.peer);
}

}  // namespace lanecast
