// SPDX-License-Identifier: Apache-2.0
// How ranks find each other: one all-gather of small byte strings, served by MPI, a launcher's store, or threads.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lanecast {

struct Bootstrap {
  int rank = 0;
  int size = 1;
  /// Collective: every rank hands in `bytes` bytes and gets size * bytes back, in rank order. Blocks; throws
  /// TransportError when it cannot.
  std::function<void(const void* in, void* out, std::size_t bytes)> all_gather;
  /// Of some of a communicator's ranks: which these are there, as messages name them. None: the same.
  std::optional<std::vector<int>> known_as = std::nullopt;

  /// "rank 3"
  std::string name_of(int rank) const;

  /// The same for strings of any length.
  std::vector<std::string> all_gather_strings(const std::string& mine) const;
  void barrier() const;
};

}  // namespace lanecast
