// SPDX-License-Identifier: Apache-2.0
// A helper's process, which this one has started.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/own_process.h"
#include "base/process.h"

namespace lanecast::helpers {

/// Any thread.
class HelperProcess {
 public:
  static constexpr int kSocket = 3;  // where the helper finds its end

  /// Runs `command` with that socket, no other file of ours but stdout and stderr, and no variable of `without`. Throws
  /// UsageError where there is no such program, TransportError where the system starts none.
  HelperProcess(const std::vector<std::string>& command, std::span<const std::string_view> without, int socket);
  /// Waits a little for its end, and then kills it.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  int id() const { return pid_; }
  /// ", killed by signal 9", " with status 1"; empty where it does not end in time, or nobody knows.
  std::string how_it_has_ended();
  /// Processor time that it has taken, in ticks; −1 where it has ended.
  std::int64_t processor_ticks() const { return process_.processor_ticks(); }
  /// For people: "is stopped", "sleeps".
  std::string state() const;
  void kill();

 private:
  bool ends_within(std::chrono::milliseconds span);

  const OwnProcess own_;  // a forked process leaves the helper to its parent
  int pid_ = -1;
  Process process_;
  std::mutex mutex_;  // guards what follows
  bool ended_ = false;
  std::optional<int> status_;  // as waitpid() gives it; none where somebody else has waited for it
};

}  // namespace lanecast::helpers
