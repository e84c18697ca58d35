// SPDX-License-Identifier: Apache-2.0
#include "runtime/wires/transports_by_level.h"

#include "base/error.h"
#include "runtime/wires/level_names.h"

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

std::vector<int> transports_by_level(Router& router, const Topology& hierarchy, int rank, const std::string& names) {
  const std::vector<int> of_peer =
      LevelNames(names, hierarchy, "hierarchy").of_peers(rank, [&](const std::string& name) {
        const int found = number_of(router, name);
        if (found < 0) throw UsageError(not_open(router, name));
        return found;
      });
  for (int peer = 0; peer < hierarchy.size(); ++peer)
    if (peer != rank && !router[of_peer[peer]].reaches(peer))
      throw UsageError("transports '" + names + "': " + std::string(router[of_peer[peer]].name()) +
                       " does not reach rank " + std::to_string(peer) + " from rank " + std::to_string(rank));
  return of_peer;
}

}  // namespace lanecast
