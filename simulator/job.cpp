// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include <charconv>
#include <functional>
#include <map>
#include <string_view>

#include "base/error.h"

namespace lanecast::simulator {
namespace {

template <class Number>
Number number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw UsageError("'" + std::string(text) + "' is no number");
  return value;
}

std::vector<std::string_view> items(std::string_view list) {
  std::vector<std::string_view> found;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    found.push_back(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return found;
}

/// "size,rate,latency,switched"
LevelLinks level(std::string_view text) {
  const auto fields = items(text);
  if (fields.size() != 4) throw UsageError("a level has 4 fields");
  return {number<int>(fields[0]), number<double>(fields[1]), number<double>(fields[2]), fields[3] == "1"};
}

}  // namespace

int Machine::ranks_per_node() const {
  int ranks = 1;
  for (const LevelLinks& links : levels) ranks *= links.size;
  return ranks;
}

std::size_t Machine::parting_level(int a, int b) const {
  int inside = ranks_per_node();
  std::size_t level = 0;
  for (; level + 1 < levels.size(); ++level) {
    inside /= levels[level].size;
    if (a / inside != b / inside) break;
  }
  return level;
}

Kind Job::kind() const {
  if (const auto kind = kind_from(collective)) return *kind;
  throw UsageError("collective '" + collective + "' is not simulated");
}

Job parse(int argc, char** argv) {
  Job job;
  Machine& machine = job.machine;
  const std::map<std::string_view, std::function<void(std::string_view)>> readers{
      {"level", [&](auto text) { machine.levels.push_back(level(text)); }},
      {"nic_of_rank",
       [&](auto text) {
         for (auto nic : items(text)) machine.nic_of_rank.push_back(number<int>(nic));
       }},
      {"nic_rate", [&](auto text) { machine.nic_rate_Bps = number<double>(text); }},
      {"latency", [&](auto text) { machine.latency_s = number<double>(text); }},
      {"group_nodes", [&](auto text) { machine.group_nodes = number<int>(text); }},
      {"group_rate", [&](auto text) { machine.group_rate_Bps = number<double>(text); }},
      {"group_latency", [&](auto text) { machine.group_latency_s = number<double>(text); }},
      {"memory_rate", [&](auto text) { machine.memory_rate_Bps = number<double>(text); }},
      {"ranks", [&](auto text) { job.ranks = number<int>(text); }},
      {"topology", [&](auto text) { job.topology = text; }},
      {"collective", [&](auto text) { job.collective = text; }},
      {"algorithm", [&](auto text) { job.algorithm = text; }},
      {"factors",
       [&](auto text) {
         for (auto factor : items(text)) job.factors.push_back(number<int>(factor));
       }},
      {"chunks", [&](auto text) { job.chunks = number<int>(text); }},
      {"window", [&](auto text) { job.window = number<int>(text); }},
      {"message_s", [&](auto text) { job.message_s = number<double>(text); }},
      {"message_within_s", [&](auto text) { job.message_within_s = number<double>(text); }},
      {"network", [&](auto text) { job.by_simgrid = text == "simgrid"; }},
      {"accidents", [&](auto text) { job.accidents = number<unsigned>(text); }},
      {"bytes", [&](auto text) { job.bytes = number<std::size_t>(text); }},
      {"check", [&](auto text) { job.is_checked = text == "1"; }},
      {"set", [&](auto text) { job.settings.emplace_back(text); }},
  };
  for (int k = 1; k < argc; ++k) {
    const std::string_view word = argv[k];
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto reader = readers.find(word.substr(0, equals));
    if (reader == readers.end() || equals == word.size()) throw UsageError("unknown argument " + std::string(word));
    reader->second(word.substr(equals + 1));
  }
  if (machine.nic_of_rank.size() != static_cast<std::size_t>(machine.ranks_per_node()))
    throw UsageError("nic_of_rank names " + std::to_string(machine.nic_of_rank.size()) + " NICs, but a node has " +
                     std::to_string(machine.ranks_per_node()) + " ranks");
  return job;
}

}  // namespace lanecast::simulator
