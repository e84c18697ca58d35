// SPDX-License-Identifier: Apache-2.0
#include "plan/exchanges.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lanecast {
namespace {

/// What a step waits for, itself or by copies and sums before it: messages from one peer up to an ordinal, or anything,
/// such as a send, which ends only when the peer has come to its receive.
struct Awaited {
  bool any = false;
  std::int32_t peer = -1;  // nobody's
  std::uint32_t ordinal = 0;

  void add(const Awaited& more) {
    if (more.peer < 0 && !more.any) return;
    any = any || more.any || (peer >= 0 && peer != more.peer);
    peer = more.peer;
    ordinal = std::max(ordinal, more.ordinal);
  }
};

}  // namespace

Exchanges::Exchanges(const Plan& plan) : other_(plan.steps.size(), kNone) {
  std::vector<Awaited> awaited(plan.steps.size());  // by whoever waits for the step
  std::map<std::pair<std::int32_t, std::uint32_t>, std::uint32_t> sends;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    Awaited before;
    for (std::uint32_t d : plan.deps(step)) before.add(awaited[d]);
    const bool receives = step.kind == StepKind::recv || step.kind == StepKind::recv_reduce;
    awaited[i] = receives ? Awaited{false, step.peer, step.ordinal} : before;
    awaited[i].any = awaited[i].any || step.kind == StepKind::send || step.kind == StepKind::group;
    const bool waits_for_peer_alone =
        !before.any && (before.peer < 0 || (before.peer == step.peer && before.ordinal < step.ordinal));
    if (step.kind == StepKind::send && waits_for_peer_alone) sends.emplace(std::pair(step.peer, step.ordinal), i);
  }
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (!talks(step) || step.kind == StepKind::send) continue;
    if (const auto send = sends.find({step.peer, step.ordinal}); send != sends.end()) {
      other_[i] = send->second;
      other_[send->second] = i;
    }
  }
}

}  // namespace lanecast
