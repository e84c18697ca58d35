// SPDX-License-Identifier: Apache-2.0
// A thread of the library's own, which no signal is handled on.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace lanecast {

/// A signal is for the program's own threads.
std::thread quiet_thread(auto body) {
  struct Blocked {
    Blocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  } const blocked;
  return std::thread(std::move(body));
}

}  // namespace lanecast
