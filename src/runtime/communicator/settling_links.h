// SPDX-License-Identifier: Apache-2.0
// What a communicator's choices rest on between hosts: links that are timed once, when it is made.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/agree/bootstrap_over.h"
#include "runtime/communicator/choosing.h"
#include "runtime/watch/patience.h"
#include "runtime/wires/router.h"

namespace lanecast {

class GpuExecutor;

/// The ranks and what carries their messages, of which none may be under way.
struct TimingSite {
  std::shared_ptr<Router> router;
  const Topology& topology;
  const std::vector<std::string>& hosts;  // of each rank
  int rank = 0;
  double timeout_s = 0;
  Rivals rivals = Rivals::ranks;  // of calls
  std::function<void()> ask;      // throws where the user wants to stop; or empty
};

/// Has the links between hosts in the models timed, where nobody has said otherwise and no file knows them. False where
/// nothing has changed. Collective.
bool settle_links(const TimingSite& site, const Choosing& choosing, Models& models);

/// The same of messages that lie on the GPU, where those of the host's memory were timed. Collective.
void settle_gpu_links(const TimingSite& site, Choosing& choosing, GpuExecutor& executor);

/// What the parent of a split has timed, seen by this part of its ranks, holds here too.
void inherit_links(Choosing& choosing, Models& known, const Choosing::GpuLinks& on_gpus);

}  // namespace lanecast
