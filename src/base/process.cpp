// SPDX-License-Identifier: Apache-2.0
#include "base/process.h"

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/error.h"

namespace lanecast {

namespace {

/// The start time of a living process, none for one that has ended: fields 3 (state) and 22 of /proc/<pid>/stat,
/// proc(5). Some sandboxes report 0 for every process. `unknown`: where this process may open no more files.
std::optional<std::uint64_t> start_ticks_of(int pid, std::optional<std::uint64_t> unknown) {
  errno = 0;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line, '\0')) {  // all of it: the program's name may hold line ends
    const bool out_of_files = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    return out_of_files ? unknown : std::nullopt;
  }
  // Field 2, the program's name, is the only one that may hold blanks and brackets.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  char state = 0;
  fields >> state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  std::uint64_t ticks = 0;
  fields >> ticks;
  if (state == 'Z' || state == 'X') return {};
  return ticks;
}

}  // namespace

Process::Process(int pid) : pid_(pid) {
  const auto ticks = start_ticks_of(pid, 0);
  if (!ticks) throw TransportError("process " + std::to_string(pid) + " has ended already");
  start_ticks_ = *ticks;
}

bool Process::has_ended() const { return start_ticks_of(pid_, start_ticks_) != start_ticks_; }

}  // namespace lanecast
