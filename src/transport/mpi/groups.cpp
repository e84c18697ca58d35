// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/groups.h"

#include <numeric>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

/// MPI leaves the corners to its libraries, and they differ from our kernels there: MPICH and Open MPI lose a NaN in
/// min and max, and Open MPI's vector code saturates sums of 8 and 16 bits where its scalar code wraps.
bool reduces_alike(DType dtype, ReduceOp op) {
  if (op == ReduceOp::min || op == ReduceOp::max) return !is_float(dtype);
  return op != ReduceOp::sum || size_of(dtype) > 2;
}

/// In MPI's sense: MpiCollective::in_place.
bool is_in_place(const GroupCall& call, int rank) {
  const auto before = [&] {
    return size_of(call.dtype) * std::accumulate(call.counts.begin(), call.counts.begin() + rank, std::size_t{0});
  };
  switch (call.kind) {
    case Kind::all_reduce:
      return call.in == call.out;
    case Kind::reduce:
      return rank == call.root && call.in == call.out;
    case Kind::all_gather:
      return call.in == call.out + before();
    case Kind::gather:
      return rank == call.root && call.in == call.out + before();
    case Kind::scatter:
      return rank == call.root && call.out == call.in + before();
    case Kind::reduce_scatter:
    case Kind::broadcast:
    case Kind::all_to_all:
    case Kind::composition:
      break;
  }
  return false;
}

}  // namespace

MpiGroups::MpiGroups(std::shared_ptr<MpiCommunicator> comm)
    : comm_(std::move(comm)), requests_(comm_->api().requests()) {}

void MpiGroups::abandon() {
  requests_->abandon();
  for (const auto& group : groups_) group->retire();
}

bool MpiGroups::runs(Kind kind, DType dtype, ReduceOp op) const {
  return !reduces(kind) || (mpi_reduces(dtype) && supports(op, dtype) && reduces_alike(dtype, op));
}

std::optional<int> MpiGroups::open(std::span<const int> ranks, std::uint32_t ordinal) {
  // A communicator for each ordinal: MPI matches the collectives of one communicator by the order of their calls.
  const Key key{{ranks.begin(), ranks.end()}, ordinal};
  if (const auto known = opened_.find(key); known != opened_.end()) return known->second;
  auto opening = opening_.find(key);
  if (opening == opening_.end()) opening = opening_.emplace(key, comm_->group(ranks)).first;
  auto group = opening->second();
  if (!group) return {};
  opening_.erase(opening);
  groups_.push_back(std::move(group));
  return opened_[key] = static_cast<int>(groups_.size()) - 1;
}

void MpiGroups::post(GroupCall& call) {
  const MpiCommunicator& group = *groups_.at(call.group);
  requests_->post({.comm = group.handle(),
                   .kind = call.kind,
                   .dtype = call.dtype,
                   .op = call.op,
                   .add = call.add,
                   .in = call.in,
                   .out = call.out,
                   .counts = call.counts,
                   .in_place = is_in_place(call, group.rank()),
                   .root = call.root,
                   .own_counts = call.own_counts},
                  &call);
}

void MpiGroups::progress(std::vector<GroupCall*>& done) {
  completions_.clear();
  requests_->test(completions_);
  for (const MpiCompletion& completion : completions_) {
    auto* call = static_cast<GroupCall*>(completion.owner);
    if (!completion.error.empty())
      throw TransportError("rank " + std::to_string(comm_->rank()) + ": MPI's own collective on group " +
                           std::to_string(call->group) + " failed: " + completion.error);
    done.push_back(call);
  }
}

}  // namespace lanecast
