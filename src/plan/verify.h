// SPDX-License-Identifier: Apache-2.0
// Proves plans without data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lanecast {

/// A plan that is wrong; says on which rank, in which step, and why.
struct PlanError : InternalError {
  using InternalError::InternalError;
};

struct Proof {
  std::uint64_t messages = 0;
  std::uint32_t min_window = 1;  // smallest number of unfinished steps an executor must look at, lest it deadlock
};

/// Throws PlanError unless the plans of all ranks together compute their collective:
///  - every output element holds each contribution exactly once, and an average divides it exactly once;
///  - every send meets a receive of the same pieces, and group calls agree among their members and in their order;
///  - nothing deadlocks even when steps start strictly in list order and no send is buffered; since no receive is a
///    wildcard, that one run proves every executor that starts at least as much;
///  - any two steps of a rank that touch the same memory, one of them writing, are ordered by the dependencies; checked
///    apart from how the builder derived them, in-place aliasing and reused scratch slots included;
///  - the caller's input is never written;
///  - where the collective is to be reproducible, every output element comes from one step that reduces the
///    contributions of all ranks in rank order, and so is rounded once.
/// plans[r] is rank r's plan. Source: design idea of HiCCL's validation, made exhaustive.
Proof verify(const std::vector<Plan>& plans);

// The parts of the proof, for those who want only one.
void check_structure(const Plan& plan);
void check_races(const Plan& plan);

/// Which step of the peer a message or group call of each step meets: partner[r][i], or kNone for local steps.
struct Matching {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::vector<std::uint32_t>> partner;  // send and receive; for group: index into `calls`
  struct Meeting {
    std::vector<std::uint32_t> step;  // of each member
  };
  std::vector<Meeting> calls;
};
Matching match(const std::vector<Plan>& plans);                         // of plans that passed check_structure()
void match_groups(const std::vector<Plan>& plans, Matching& matching);  // its second half

/// What the outputs end up with.
void check_contributions(const std::vector<Plan>& plans, const Matching& matching);

/// Called when a message (receiver's rank and step), a local step or a group call (first member's) takes place.
using Happens = std::function<void(int rank, std::uint32_t step)>;

/// Runs the plans with in-order issue, at most `window` unfinished steps a rank, and no buffering. Returns the text of
/// the deadlock, empty when all finish.
std::string simulate(const std::vector<Plan>& plans, const Matching& matching, std::uint32_t window,
                     const Happens& happens);

}  // namespace lanecast
