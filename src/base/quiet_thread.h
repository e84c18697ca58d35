// SPDX-License-Identifier: Apache-2.0
// A thread of the library's own, which takes no signal that is meant for the program.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace lanecast {

/// A signal is for the program's own threads: one that these have blocked, to take it in sigwait() or a signalfd, would
/// end the process here. What the thread itself brings about, such as SIGSEGV, still finds the program's handler.
std::thread quiet_thread(auto body) {
  struct Blocked {
    Blocked() {
      sigset_t of_others;
      sigfillset(&of_others);
      for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&of_others, own);
      pthread_sigmask(SIG_SETMASK, &of_others, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  } const blocked;
  return std::thread(std::move(body));
}

}  // namespace lanecast
