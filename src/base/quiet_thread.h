// SPDX-License-Identifier: Apache-2.0
// Threads of the library's own, and of libraries below, which take no signal that is meant for the program.
#pragma once

#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"

namespace lanecast {

/// Threads that are started while it is there are quiet. A signal is for the program's own threads: one that these have
/// blocked, to take it in sigwait() or a signalfd, would end the process in another. What a thread itself brings about,
/// such as SIGSEGV, still finds the program's handler.
class QuietThreads {
 public:
  QuietThreads() {
    sigset_t of_others;
    sigfillset(&of_others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&of_others, own);
    pthread_sigmask(SIG_SETMASK, &of_others, &before_);
  }
  ~QuietThreads() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  QuietThreads(const QuietThreads&) = delete;
  QuietThreads& operator=(const QuietThreads&) = delete;

 private:
  sigset_t before_;
};

/// Throws TransportError where the system starts no more.
std::thread quiet_thread(auto body) {
  const QuietThreads quiet;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw TransportError(std::string("a thread of the library cannot be started: ") + error.code().message() +
                         "; raise the limit of processes and threads (ulimit -u, pids.max of a control group, "
                         "--pids-limit of a container)");
  }
}

}  // namespace lanecast
