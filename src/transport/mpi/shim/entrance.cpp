// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/shim/entrance.h"

#include <unistd.h>

#include <chrono>

#include "base/error.h"
#include "base/running_time.h"

namespace lanecast::mpi {

bool Entrance::close(MpiLatecomers latecomers) {
  constexpr auto kGrace =
      std::chrono::seconds(2);  // calls of MPI's take microseconds, but for those that wait for peers
  if (closer_.load() != std::this_thread::get_id()) {
    latecomers_.store(latecomers, std::memory_order_relaxed);  // before closer_, after which it is read
    closer_.store(std::this_thread::get_id());
  }
  Countdown left(kGrace);
  while (inside_.load() > 0) {
    if (left.over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

void Entrance::refuse() const {
  while (latecomers_.load(std::memory_order_relaxed) == MpiLatecomers::stay) pause();
  throw TransportError(
      "MPI ends in this process, by another thread, before this call has ended: wait for all calls before that");
}

}  // namespace lanecast::mpi
