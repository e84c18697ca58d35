// SPDX-License-Identifier: Apache-2.0
// The end of the process, which may find threads in calls: daemons, for Python waits for all others.
#pragma once

namespace lanecast_torch {

class ProcessEnd {
 public:
  // By the thread that ends the process: calls of other threads are ended, and have been.
  static void begin();
  static void calls_have_ended();
};

/// First in what blocks a caller of torch's. torch takes Python's lock again behind it, in a destructor, past which
/// Python's ending a thread that comes too late (gil.h) ends the process by SIGABRT. So, once the process ends, nobody
/// goes back there before Python has ended or clearly waits for them, as a function of atexit does that joins a thread.
class Blocks {
 public:
  Blocks() = default;
  ~Blocks();
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
};

}  // namespace lanecast_torch
