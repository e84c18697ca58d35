// SPDX-License-Identifier: Apache-2.0
#include "runtime/carriers.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {
namespace {

/// Of the transport with this name in the router; -1: there is none.
int number_of(Router& router, std::string_view name) {
  for (std::size_t t = 0; t < router.count(); ++t)
    if (router[t].name() == name) return static_cast<int>(t);
  return -1;
}

std::string not_open(Router& router, const std::string& name) {
  std::string text = "transports: '" + name + "' is not open on this communicator; open are:";
  for (std::size_t t = 0; t < router.count(); ++t) text.append(" ").append(router[t].name());
  return text + "; init(transports=…) opens others";
}

}  // namespace

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::vector<int> carriers(Router& router, const Topology& hierarchy, int rank, const std::string& names) {
  const std::vector<std::string> wanted = split_names(names);
  const std::size_t levels = static_cast<std::size_t>(hierarchy.levels()) + 1;
  if (wanted.size() != 1 && wanted.size() != levels)
    throw UsageError("transports '" + names + "': hierarchy " + hierarchy.str() + " needs one name, or " +
                     std::to_string(levels) + ", outermost level first");
  std::vector<int> at_level;
  for (const std::string& name : wanted) {
    const int found = number_of(router, name);
    if (found < 0) throw UsageError(not_open(router, name));
    at_level.push_back(found);
  }
  std::vector<int> of_peer(hierarchy.size(), -1);
  for (int peer = 0; peer < hierarchy.size(); ++peer) {
    if (peer == rank) continue;
    of_peer[peer] = at_level[wanted.size() == 1 ? 0 : hierarchy.parting_level(rank, peer)];
    if (const Transport& carrier = router[of_peer[peer]]; !carrier.reaches(peer))
      throw UsageError("transports '" + names + "': " + std::string(carrier.name()) + " does not reach rank " +
                       std::to_string(peer) + " from rank " + std::to_string(rank));
  }
  return of_peer;
}

}  // namespace lanecast
