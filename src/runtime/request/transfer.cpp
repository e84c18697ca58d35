// SPDX-License-Identifier: Apache-2.0
#include "runtime/request/transfer.h"

#include "base/error.h"

namespace lanecast {

std::string describe(const Transfer& transfer) {
  const bool sends = transfer.way == Transfer::Way::send;
  return std::string(sends ? "send" : "recv") + " of " + std::to_string(transfer.bytes) + " bytes " +
         (sends ? "to" : "from") + " rank " + std::to_string(transfer.peer) + ", tag " + std::to_string(transfer.tag);
}

void check(const Transfer& transfer, int rank, int size, std::uint64_t tags) {
  const bool sends = transfer.way == Transfer::Way::send;
  const auto refuse = [&](const std::string& what) {
    throw UsageError("rank " + std::to_string(rank) + ": " + (sends ? "send: " : "recv: ") + what);
  };
  const std::string peer = std::string(sends ? "dst" : "src") + ": rank " + std::to_string(transfer.peer);
  if (transfer.peer < 0 || transfer.peer >= size) refuse(peer + " is outside 0 to " + std::to_string(size - 1));
  if (transfer.peer == rank) refuse(peer + " is this rank itself; copy the buffer instead");
  if (transfer.tag < 0 || static_cast<std::uint64_t>(transfer.tag) >= tags)
    refuse("tag: " + std::to_string(transfer.tag) + " is outside 0 to " + std::to_string(tags - 1));
  if (transfer.bytes > 0 && transfer.data == nullptr) refuse("buffer: null pointer");
}

}  // namespace lanecast
