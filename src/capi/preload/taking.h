// SPDX-License-Identifier: Apache-2.0
// Who takes a call, Lanecast or NCCL, and the line that says so. All ranks decide alike: by the communicator and by
// arguments that are equal on all of them.
#pragma once

#include <cstddef>
#include <string>

#include "capi/nccl_names.h"
#include "capi/preload/beside.h"

namespace lanecast::preload {

/// A call by the numbers of NCCL.
struct AskedOfNccl {
  const char* name;  // "AllReduce"
  lanecastCollective_t collective;
  const void* in;
  void* out;
  std::size_t count;
  int type;
  int op = ncclSum;
  int root = 0;
  bool is_message = false;
};

/// Why NCCL takes it; null: Lanecast does.
const char* left_to_nccl(const AskedOfNccl& asked, BesideNccl& beside);

/// Pointers that this rank does not use become null: programs leave anything there.
lanecastCall_t as_ours(const AskedOfNccl& asked, int rank);

/// Once for each way of each call and magnitude of its size, where lines are wanted. why: empty where Lanecast takes
/// it.
void tell_way(const AskedOfNccl& asked, BesideNccl& beside, const std::string& why);

/// What a call of ours has ended with, for the program: remembers where a text is to be had.
ncclResult_t told(lanecastResult_t result, BesideNccl& beside);

}  // namespace lanecast::preload
