// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/long_end.h"

#include <cstdio>

#include "base/quiet_thread.h"
#include "base/running_time.h"

namespace lanecast {

LongEnd::LongEnd(int rank, double timeout_s) {
  const auto say = [this, rank, timeout_s] {
    std::unique_lock lock(mutex_);
    if (wait_while_running(changed_, lock, std::chrono::duration<double>(timeout_s), [this] { return is_over_; }))
      return;
    std::fprintf(stderr,
                 "lanecast: rank %d has waited %.1f s at the end of a communicator for its GPU, which has not done all "
                 "that is enqueued there: does a stream of the program wait for what does not come?\n",
                 rank, timeout_s);
  };
  try {
    thread_ = quiet_thread(say);
  } catch (const TransportError&) {  // no thread is to be had, and the end matters more
  }
}

LongEnd::~LongEnd() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace lanecast
