// SPDX-License-Identifier: Apache-2.0
#include "profiles/job_shape.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

#include "profiles/json_field.h"

namespace lanecast {
namespace {

/// What carries messages to the first peer that this rank meets at a level.
std::string transport_at(const Communicator& communicator, int level) {
  const int me = communicator.rank();
  for (int peer = 0; peer < communicator.size(); ++peer)
    if (peer != me && communicator.topology().parting_level(me, peer) == level) return communicator.transport_to(peer);
  return "none";
}

}  // namespace

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    for (const std::string_view name : {"model name", "Model", "cpu model"}) {
      const std::size_t colon = line.find(':');
      if (!line.starts_with(name) || colon == std::string::npos) continue;
      constexpr const char* kBlanks = " \t\r";
      const std::size_t begin = line.find_first_not_of(kBlanks, colon + 1);
      return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
    }
  utsname system{};
  uname(&system);
  return system.machine;
}

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : between).append(name);
  return text;
}

JobShape JobShape::from(const JsonField& field) {
  field.has_only({"lanecast", "cpu", "cores", "hosts", "topology", "transports"});
  return {field["lanecast"].text(),
          field["cpu"].text(),
          field["cores"].whole(),
          field["hosts"].whole(),
          field["topology"].text(),
          field["transports"].texts(),
          0};
}

JobShape JobShape::of(const Communicator& communicator) {
  JobShape shape{LANECAST_VERSION,
                 cpu_model(),
                 sysconf(_SC_NPROCESSORS_ONLN),
                 communicator.hosts(),
                 communicator.topology().str(),
                 {},
                 communicator.size()};
  for (int level = 0; level <= communicator.topology().levels(); ++level)
    shape.transports.push_back(transport_at(communicator, level));
  return shape;
}

std::string differences(const JobShape& there, const JobShape& here) {
  std::string found;
  const auto compare = [&](const char* name, const std::string& theirs, const std::string& mine) {
    if (theirs != mine) found += std::string(found.empty() ? "" : "; ") + name + ": " + theirs + ", not " + mine;
  };
  compare("lanecast", there.lanecast, here.lanecast);
  compare("cpu", there.cpu, here.cpu);
  compare("cores", std::to_string(there.cores), std::to_string(here.cores));
  compare("hosts", std::to_string(there.hosts), std::to_string(here.hosts));
  compare("topology", there.topology, here.topology);
  compare("transports", joined(there.transports, ","), joined(here.transports, ","));
  return found;
}

}  // namespace lanecast
