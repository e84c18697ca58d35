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
  int starter = 0;  // the process that has started this; 0: one that ends this itself
};

/// Serves the ranks of a host until may_go_on() says no, which is asked several times a second, or nobody needs it: its
/// starter has ended, and for some seconds there was no rank.
/// ready: called once ranks can attach. Throws UsageError for GPUs that do not reach each other.
void run_nic_process(const NicProcessOptions& options, const std::function<void()>& ready,
                     const std::function<bool()>& may_go_on);

}  // namespace lanecast::emulated
