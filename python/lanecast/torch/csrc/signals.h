// SPDX-License-Identifier: Apache-2.0
// Python runs the handlers of signals in its main thread, between two lines of Python. So a thread that waits in C++
// has to let it do so now and then, or Ctrl-C waits for the call to end.
#pragma once

#include <lanecast/lanecast.h>

#include <chrono>
#include <functional>
#include <string>

namespace lanecast_torch {

/// How often a wait lets handlers run; as the core does.
inline constexpr std::chrono::milliseconds kBetweenSignals{20};

class Signals {
 public:
  /// Runs the handlers of what has come, where this is the thread that does. Throws what one of them raises. To be
  /// called without locks that a handler's calls may want.
  static void hear();
  /// The same at most every kBetweenSignals, for loops that come by more often.
  class Ear {
   public:
    void hear();

   private:
    std::chrono::steady_clock::time_point heard_ = std::chrono::steady_clock::now();
  };

  /// A lanecastInterruptFn, for the core, which no exception of Python's passes.
  static int hear_for_core(lanecastError_t* why, void*) noexcept;
  /// Keeps the exception that is being handled as what a handler has raised in this thread; its words.
  static std::string keep();
  /// Throws what was kept for this thread, if anything.
  static void rethrow_kept();

  /// Does this thread run a handler that one of these waits has called?
  static bool in_handler();
};

/// Runs `job` in a thread of its own and waits for its end, hearing signals; throws what it throws. Where a handler
/// raises, the job is left behind: it has to own all that it uses.
void run_hearing_signals(std::function<void()> job);

}  // namespace lanecast_torch
