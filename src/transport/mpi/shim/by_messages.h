// SPDX-License-Identifier: Apache-2.0
// Gathers, scatters and all-to-alls as plain messages, where a library's own calls cannot take them: its counts and
// offsets are ints, and members who know their own counts only cannot agree on a row of smaller calls.
#pragma once

#include <cstddef>

#include "transport/mpi/shim/collective.h"

namespace lanecast::mpi {

inline bool has_shares_of_pairs(Kind kind) {
  return kind == Kind::gather || kind == Kind::scatter || kind == Kind::all_to_all;
}

template <class Abi>
bool goes_by_messages(const Binding<Abi>& mpi, const MpiCollective& call) {
  return has_shares_of_pairs(call.kind) && !mpi.functions.has_large() &&
         (call.own_counts || !fits_int(total_count(call)));
}

/// Calls send(peer, data, bytes) and receive(peer, data, bytes) for each message of this rank, to itself too; both
/// sides know of one that is empty and leave it out.
template <class Send, class Receive>
void for_each_message(const MpiCollective& call, int rank, int size, const Send& send, const Receive& receive) {
  const std::size_t element_bytes = size_of(call.dtype);
  const auto* in = static_cast<const std::byte*>(call.in);
  auto* out = static_cast<std::byte*>(call.out);
  const auto receive_from_all = [&](std::span<const std::size_t> counts) {
    for (int peer = 0; peer < size; out += counts[peer++] * element_bytes)
      if (counts[peer] > 0 && !(call.in_place && peer == rank)) receive(peer, out, counts[peer] * element_bytes);
  };
  const auto send_to_all = [&](std::span<const std::size_t> counts) {
    for (int peer = 0; peer < size; in += counts[peer++] * element_bytes)
      if (counts[peer] > 0 && !(call.in_place && peer == rank)) send(peer, in, counts[peer] * element_bytes);
  };
  const bool own = rank == call.root ? !call.in_place : true;
  switch (call.kind) {
    case Kind::gather:
      if (rank == call.root) receive_from_all(call.counts);
      if (own && call.counts[rank] > 0) send(call.root, in, call.counts[rank] * element_bytes);
      break;
    case Kind::scatter:
      if (own && call.counts[rank] > 0) receive(call.root, out, call.counts[rank] * element_bytes);
      if (rank == call.root) send_to_all(call.counts);
      break;
    default:
      receive_from_all(call.counts.last(size));
      send_to_all(call.counts.first(size));
  }
}

}  // namespace lanecast::mpi
