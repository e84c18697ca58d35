// SPDX-License-Identifier: Apache-2.0
// What a thread has asked for between ncclGroupStart and ncclGroupEnd.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "capi/nccl_group.h"
#include "capi/preload/beside.h"
#include "capi/preload/real_nccl.h"

namespace lanecast::preload {

struct ThreadGroup {
  capi::NcclGroup messages;  // that go by Lanecast
  struct Made {
    NcclComm* where;  // NCCL fills it at the end of the group
    bool blocks;
  };
  std::vector<Made> made;                                        // communicators
  bool has_nccls = false;                                        // NCCL has messages of it, too
  std::map<lanecastComm_t, std::shared_ptr<BesideNccl>> takers;  // of those that go by Lanecast
  struct Window {
    NcclComm comm;
    void** where;  // likewise
    char* begin;
    std::size_t bytes;
    bool symmetric;
  };
  std::vector<Window> windows;
};

ThreadGroup& thread_group();

/// One of NCCL's that is there now, and of Lanecast's from now on, where that can be.
void keep_window(const ThreadGroup::Window& window);

}  // namespace lanecast::preload
