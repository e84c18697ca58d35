// SPDX-License-Identifier: Apache-2.0
// The process that plays all NICs of an emulated host: beside the ranks, as a NIC is beside a CPU, with a GPU driver's
// context of its own.
#pragma once

#include <functional>
#include <string>

namespace lanecast::emulated {

struct NicProcessOptions {
  std::string folder;  // of the network
  std::string host;    // as its ranks call it
  int host_index = 0;
  int leave_after_s = 0;  // without ranks, once there were any or a minute has passed; 0: never
};

/// Serves the ranks of a host until nobody needs it or may_go_on() says no, which is asked several times a second.
/// ready: called once ranks can attach. Throws UsageError for GPUs that do not reach each other.
void run_nic_process(const NicProcessOptions& options, const std::function<void()>& ready,
                     const std::function<bool()>& may_go_on);

}  // namespace lanecast::emulated
