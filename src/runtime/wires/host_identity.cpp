// SPDX-License-Identifier: Apache-2.0
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>

#include "runtime/wires/surroundings.h"

namespace lanecast {

std::string host_identity() {
  if (const char* named = std::getenv("LANECAST_HOST"); named && *named) return named;
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  utsname name{};
  uname(&name);
  // Containers on one kernel share the boot id; where they do not share processes either, memory cannot be shared.
  std::array<char, 64> processes{};
  const auto length = readlink("/proc/self/ns/pid", processes.data(), processes.size() - 1);
  return std::string(name.nodename) + " " + boot_id + " " +
         std::string(processes.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace lanecast
