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

struct Stat {
  char state = '?';
  int parent = -1;
  std::int64_t processor_ticks = -1;
  std::uint64_t start_ticks = 0;
};

/// Fields 3, 4, 14 and 15, and 22 of /proc/<pid>/stat, proc(5), of a living process; none of one that has ended. Some
/// sandboxes report 0 for every process. `unknown`: where this process may open no more files.
std::optional<Stat> stat_of(int pid, std::optional<Stat> unknown) {
  errno = 0;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line, '\0')) {  // all of it: the program's name may hold line ends
    const bool out_of_files = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    return out_of_files ? unknown : std::nullopt;
  }
  // Field 2, the program's name, is the only one that may hold blanks and brackets.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  Stat found;
  fields >> found.state >> found.parent;
  std::string skipped;
  for (int field = 5; field < 14; ++field) fields >> skipped;
  std::int64_t of_user = 0, of_system = 0;
  fields >> of_user >> of_system;
  found.processor_ticks = of_user + of_system;
  for (int field = 16; field < 22; ++field) fields >> skipped;
  fields >> found.start_ticks;
  if (found.state == 'Z' || found.state == 'X') return {};
  return found;
}

}  // namespace

Process::Process(int pid) : pid_(pid) {
  const auto stat = stat_of(pid, Stat{});
  if (!stat) throw TransportError("process " + std::to_string(pid) + " has ended already");
  start_ticks_ = stat->start_ticks;
}

int Process::parent() const { return stat_of(pid_, {}).value_or(Stat{}).parent; }

char Process::state() const { return stat_of(pid_, {}).value_or(Stat{.state = 'Z'}).state; }

std::int64_t Process::processor_ticks() const { return stat_of(pid_, {}).value_or(Stat{}).processor_ticks; }

bool Process::has_ended() const {
  const auto stat = stat_of(pid_, Stat{.start_ticks = start_ticks_});
  return !stat || stat->start_ticks != start_ticks_;
}

}  // namespace lanecast
