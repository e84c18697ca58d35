// SPDX-License-Identifier: Apache-2.0
// How an MPI library adds what it has no operator of its own for: by a function of ours.
#pragma once

#include <map>
#include <mutex>

#include "transport/mpi/api.h"

namespace lanecast::mpi {

/// MPI keeps such operators until it ends, one for each function.
template <class Abi>
class Operators {
 public:
  using Op = typename Abi::Op;

  /// make(function, &op): MPI_Op_create, whose code is 0 where all went well.
  template <class Make>
  int find(GroupAdd* function, Op& op, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (const auto known = ops_.find(function); known != ops_.end()) {
      op = known->second;
      return 0;
    }
    const int code = make(function, &op);
    if (code == 0) ops_.emplace(function, op);
    return code;
  }

  template <class Free>
  void free_all(const Free& free) {
    const std::lock_guard lock(mutex_);
    for (auto& [function, op] : ops_) free(&op);
    ops_.clear();
  }

 private:
  std::mutex mutex_;  // ranks of one process may share a library
  std::map<GroupAdd*, Op> ops_;
};

}  // namespace lanecast::mpi
