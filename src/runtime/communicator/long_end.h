// SPDX-License-Identifier: Apache-2.0
// The end of a communicator waits for its GPU, however long the program's own work there takes. Nobody hears an error
// of that wait, so it is said on standard error.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace lanecast {

/// While it is there, the communicator ends.
class LongEnd {
 public:
  /// It is said after so many seconds.
  LongEnd(int rank, double timeout_s);
  ~LongEnd();
  LongEnd(const LongEnd&) = delete;
  LongEnd& operator=(const LongEnd&) = delete;

 private:
  std::mutex mutex_;  // guards is_over_
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace lanecast
