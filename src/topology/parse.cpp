// SPDX-License-Identifier: Apache-2.0
// Topologies from text and from host names.
#include <charconv>
#include <cstdint>
#include <map>

#include "base/error.h"
#include "topology/limits.h"
#include "topology/topology.h"

namespace lanecast {
namespace {

std::vector<int> numbers(std::string_view text, char separator) {
  std::vector<int> result;
  for (std::string_view rest = text;;) {
    const std::string_view number = rest.substr(0, rest.find(separator));
    const char* const end = number.begin() + number.size();
    int value = 0;
    const auto [stop, error] = std::from_chars(number.begin(), end, value);
    if (error != std::errc{} || stop != end || value < 1) return {};
    result.push_back(value);
    if (number.size() == rest.size()) return result;
    rest.remove_prefix(number.size() + 1);
  }
}

/// Domain of each rank when `sizes[d]` ranks sit in domain d.
std::vector<int> place(const std::vector<int>& sizes, bool cyclic) {
  std::vector<int> domain;
  if (!cyclic) {
    for (std::size_t d = 0; d < sizes.size(); ++d) domain.insert(domain.end(), sizes[d], static_cast<int>(d));
    return domain;
  }
  for (int round = 0;; ++round) {
    const std::size_t before = domain.size();
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (round < sizes[d]) domain.push_back(static_cast<int>(d));
    if (domain.size() == before) return domain;
  }
}

std::string level_name(std::size_t k, std::size_t levels) {
  constexpr std::string_view kNames[] = {"node", "device", "die"};
  if (levels > 3) return "level" + std::to_string(k);
  return std::string(kNames[k]);
}

}  // namespace

Topology Topology::parse(std::string_view text, int size) {
  const std::string quoted = "topology '" + std::string(text) + "'";
  const std::size_t colon = text.find(':');
  const std::string_view shape = text.substr(0, colon);
  const std::string_view layout = colon == std::string_view::npos ? "block" : text.substr(colon + 1);
  if (layout != "block" && layout != "cyclic")
    throw UsageError(quoted + ": unknown layout '" + std::string(layout) + "', use block or cyclic");
  const bool cyclic = layout == "cyclic";

  const bool uneven = shape.find('+') != std::string_view::npos;
  const std::vector<int> parts = numbers(shape, uneven ? '+' : 'x');
  if (parts.empty()) throw UsageError(quoted + ": expected sizes such as 2x4, 2x2x2 or 3+2+4");
  if (!uneven && parts.size() > kMostLevels + 1)
    throw UsageError(quoted + " has " + std::to_string(parts.size() - 1) + " levels above the ranks, at most " +
                     std::to_string(kMostLevels) + " are possible");
  long total = uneven ? 0 : 1;
  for (int n : parts) {
    total = uneven ? total + n : total * n;
    if (total > INT32_MAX) throw UsageError(quoted + " describes more than 2^31 ranks");
  }
  if (total != size)
    throw UsageError(quoted + " describes " + std::to_string(total) + " ranks, but there " +
                     (size == 1 ? "is only this one; start them by mpirun -n " + std::to_string(total) + " or the like"
                                : "are " + std::to_string(size)));

  std::vector<Level> levels;
  if (uneven) {
    levels.push_back({"node", place(parts, cyclic)});
  } else {
    int domains = 1;
    for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
      domains *= parts[k];
      Level level{level_name(k, parts.size() - 1), std::vector<int>(size)};
      // Cyclic: the outermost index varies fastest from rank to rank, then the next one.
      for (int r = 0; r < size; ++r) {
        int index = r % parts[0], stride = parts[0];
        for (std::size_t j = 1; cyclic && j <= k; ++j, stride *= parts[j - 1])
          index = index * parts[j] + r / stride % parts[j];
        level.domain[r] = cyclic ? index : r / (size / domains);
      }
      levels.push_back(std::move(level));
    }
  }
  return {size, std::move(levels)};
}

Topology Topology::from_hosts(const std::vector<std::string>& hosts) {
  std::map<std::string, int> index;
  if (hosts.empty()) throw UsageError("hosts: at least one rank must report its host");
  Level level{"node", {}};
  for (const std::string& host : hosts)
    level.domain.push_back(index.try_emplace(host, static_cast<int>(index.size())).first->second);
  const int size = static_cast<int>(hosts.size());
  return index.size() < 2 ? Topology(size) : Topology(size, {std::move(level)});
}

}  // namespace lanecast
