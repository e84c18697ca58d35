// SPDX-License-Identifier: Apache-2.0
// Collectives with a root, and the all-to-all, through MPI's own calls; collective.h has the others.
#pragma once

#include <memory>

#include "transport/mpi/shim/by_messages.h"

namespace lanecast::mpi {

/// As MPI wants a call's arguments.
template <class Abi, class Counted>
struct Arguments {
  Arguments(const Binding<Abi>& mpi, const MpiCollective& call)
      : comm(mpi.unwrap(call.comm)),
        rank(mpi.rank(comm)),
        type(mpi.abi.datatypes[static_cast<std::size_t>(call.dtype)]),
        op(mpi.op_of(call)),
        in(call.in_place && call.kind != Kind::scatter ? mpi.abi.in_place() : call.in),
        out(call.in_place && call.kind == Kind::scatter ? mpi.abi.in_place() : call.out),
        first(static_cast<typename Counted::Count>(call.counts[0])) {}

  typename Abi::Comm comm;
  int rank;
  typename Abi::Datatype type;
  typename Abi::Op op;
  const void* in;
  void* out;
  typename Counted::Count first;
};

template <class Abi, class Counted>
int broadcast_or_reduce(const Counted& calls, const MpiCollective& call, const Arguments<Abi, Counted>& a,
                        typename Abi::Request* request) {
  if (call.kind == Kind::reduce)
    return either(request, calls.Reduce, calls.Ireduce, a.in, a.out, a.first, a.type, a.op, call.root, a.comm);
  void* const buffer = a.rank == call.root && call.in ? const_cast<void*>(call.in) : call.out;
  return either(request, calls.Bcast, calls.Ibcast, buffer, a.first, a.type, call.root, a.comm);
}

/// All members know that all counts are equal.
template <class Abi, class Counted>
int even_shares(const Counted& calls, const MpiCollective& call, const Arguments<Abi, Counted>& a,
                typename Abi::Request* request) {
  const auto n = a.first;
  if (call.kind == Kind::all_to_all)
    return either(request, calls.Alltoall, calls.Ialltoall, a.in, n, a.type, a.out, n, a.type, a.comm);
  if (call.kind == Kind::gather)
    return either(request, calls.Gather, calls.Igather, a.in, n, a.type, a.out, n, a.type, call.root, a.comm);
  return either(request, calls.Scatter, calls.Iscatter, a.in, n, a.type, a.out, n, a.type, call.root, a.comm);
}

/// One list, or for an all-to-all two: to each member, then from each.
template <class Counted>
using PartLists = std::pair<CountArrays<Counted>, CountArrays<Counted>>;

template <class Abi, class Counted>
int uneven_shares(const Counted& calls, const MpiCollective& call, const Arguments<Abi, Counted>& a,
                  const PartLists<Counted>& parts, typename Abi::Request* request) {
  const auto *counts = parts.first.counts.data(), *more_counts = parts.second.counts.data();
  const auto *offsets = parts.first.offsets.data(), *more_offsets = parts.second.offsets.data();
  if (call.kind == Kind::all_to_all)
    return either(request, calls.Alltoallv, calls.Ialltoallv, a.in, counts, offsets, a.type, a.out, more_counts,
                  more_offsets, a.type, a.comm);
  const auto mine = counts[a.rank];
  if (call.kind == Kind::gather)
    return either(request, calls.Gatherv, calls.Igatherv, a.in, mine, a.type, a.out, counts, offsets, a.type, call.root,
                  a.comm);
  return either(request, calls.Scatterv, calls.Iscatterv, a.in, counts, offsets, a.type, a.out, mine, a.type, call.root,
                a.comm);
}

template <class Abi, class Counted>
std::shared_ptr<void> start_rooted(const Binding<Abi>& mpi, const Counted& calls, const MpiCollective& call,
                                   typename Abi::Request* request) {
  const Arguments<Abi, Counted> arguments(mpi, call);
  std::shared_ptr<PartLists<Counted>> parts;
  int code = 0;
  if (call.kind == Kind::broadcast || call.kind == Kind::reduce) {
    code = broadcast_or_reduce<Abi>(calls, call, arguments, request);
  } else if (!call.own_counts && are_equal(call.counts)) {
    code = even_shares<Abi>(calls, call, arguments, request);
  } else {
    const std::size_t members = call.kind == Kind::all_to_all ? call.counts.size() / 2 : call.counts.size();
    parts = std::make_shared<PartLists<Counted>>(CountArrays<Counted>(call.counts.first(members)),
                                                 CountArrays<Counted>(call.counts.subspan(members)));
    code = uneven_shares<Abi>(calls, call, arguments, *parts, request);
  }
  if (code != 0) mpi.fail(code, "MPI's own collective");
  return parts;
}

/// Any collective: blocks when `request` is null; else starts it, and what is returned must live until it has finished.
template <class Abi, class Counted>
std::shared_ptr<void> start_any(const Binding<Abi>& mpi, const Counted& calls, const MpiCollective& call,
                                typename Abi::Request* request) {
  const bool here = has_shares_of_pairs(call.kind) || call.kind == Kind::broadcast || call.kind == Kind::reduce;
  return here ? start_rooted(mpi, calls, call, request) : start(mpi, calls, call, request);
}

}  // namespace lanecast::mpi
