// SPDX-License-Identifier: Apache-2.0
// One send or receive between two ranks, as the caller describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lanecast {

/// Sends and receives of a pair of ranks match by tag, equal tags in the order in which they were posted; they never
/// meet a collective, so the other ranks need not know of them.
struct Transfer {
  enum class Way : std::uint8_t { send, receive };
  Way way = Way::send;
  void* data = nullptr;  // a send only reads it
  std::size_t bytes = 0;
  int peer = -1;
  std::int64_t tag = 0;
};

/// "recv of 8 bytes from rank 1, tag 7"
std::string describe(const Transfer& transfer);

/// Throws UsageError, naming the argument and the rank, for everything that one rank can see by itself. `tags`: how
/// many there are.
void check(const Transfer& transfer, int rank, int size, std::uint64_t tags);

}  // namespace lanecast
