// SPDX-License-Identifier: Apache-2.0
#include "process_end.h"

#include <gil.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace lanecast_torch {
namespace {

using Clock = std::chrono::steady_clock;

// Between the end of the calls and Python's, what else is registered for the end of the process runs.
constexpr auto kUntilPythonEnds = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::milliseconds(1);

std::atomic<std::thread::id> ends_process{};  // nobody: it goes on
std::atomic<Clock::time_point> calls_ended{Clock::time_point::max()};

bool python_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

bool python_may_end_yet() {
  const Clock::time_point ended = calls_ended.load(std::memory_order_acquire);
  return ended == Clock::time_point::max() || Clock::now() < ended + kUntilPythonEnds;
}

}  // namespace

// Release, with the acquire below: who has been woken by what the ending thread did next sees that it ends.
void ProcessEnd::begin() { ends_process.store(std::this_thread::get_id(), std::memory_order_release); }
void ProcessEnd::calls_have_ended() { calls_ended.store(Clock::now(), std::memory_order_release); }

Blocks::~Blocks() {
  const std::thread::id ending = ends_process.load(std::memory_order_acquire);
  if (ending == std::thread::id() || ending == std::this_thread::get_id()) return;
  while (python_may_end_yet()) {
    if (python_ends()) lanecast::stay();
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace lanecast_torch
