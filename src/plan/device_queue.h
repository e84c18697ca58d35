// SPDX-License-Identifier: Apache-2.0
// The order in which a GPU is handed a plan's steps. A device may run all its streams through one queue
// (CUDA_DEVICE_MAX_CONNECTIONS=1), and then a step that waits for another rank holds up all that stand behind it.
#pragma once

#include <vector>

#include "plan/verify.h"

namespace lanecast {

/// Every step of the plan, once, behind those that it depends on. What other ranks may be waiting for comes as early as
/// it can: a send, which is a copy to memory from which the host sends, waits for nobody, so it goes ahead of every
/// receive that it does not need. Steps of groups keep the order of the list, in which their members meet.
std::vector<std::uint32_t> device_order(const Plan& plan);

/// Throws PlanError unless ranks that take one chunk's steps strictly in these orders, one per plan, all come to their
/// ends: a send is done at once, a receive waits for its message, a group for all its members.
///
/// Chunks that follow each other are proven by it as well, in any number and with memory for a few of them alone: a
/// chunk's steps stand behind all steps of those before it, it needs nothing of those behind it, and the memory that it
/// takes over is given back by chunks before it. So the first unfinished chunk always gets on.
void check_device_queue(const std::vector<Plan>& plans, const Matching& matching,
                        const std::vector<std::vector<std::uint32_t>>& orders);

}  // namespace lanecast
