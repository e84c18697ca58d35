// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi.h"

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

MpiTransport::MpiTransport(std::shared_ptr<MpiCommunicator> comm)
    : comm_(std::move(comm)),
      max_tag_(static_cast<std::uint64_t>(comm_->message_tags() - 1)),  // the last one is that of the notes
      messages_(comm_->api().requests()),
      collectives_(comm_->api().requests()),
      note_carrier_(*comm_, comm_->message_tags() - 1),
      notes_(note_carrier_) {}

MpiTransport::~MpiTransport() {
  if (!messages_->empty() || !collectives_->empty()) leave();
}

MpiMessage MpiTransport::native(const Message& message) const {
  if (message.memory.size() > 1 || message.consumer != nullptr || message.tag >= max_tag_)
    throw InternalError(
        "rank " + std::to_string(comm_->rank()) + ": a message to or from rank " + std::to_string(message.peer) +
        " with " + std::to_string(message.memory.size()) + " spans and tag " + std::to_string(message.tag) +
        " came to the MPI transport, which takes one span, no consumer, and tags below " + std::to_string(max_tag_));
  return {.comm = comm_->handle(),
          .peer = message.peer,
          .tag = static_cast<int>(message.tag),
          .data = message.memory.empty() ? nullptr : message.memory[0].data,
          .bytes = message.bytes};
}

std::string MpiTransport::why_undecided(GpuMemory memory) const {
  if (!comm_->api().takes(memory)) return {};
  return "this MPI says that it takes GPUs' memory, and calls the GPU's driver while messages move";
}

void MpiTransport::post_send(Message& message) { messages_->send(native(message), &message); }

void MpiTransport::post_recv(Message& message) { messages_->receive(native(message), &message); }

bool MpiTransport::progress(std::vector<Message*>& done) {
  completions_.clear();
  messages_->test(completions_);
  for (const MpiCompletion& completion : completions_) {
    Message& message = *static_cast<Message*>(completion.owner);
    if (completion.receive && (!completion.error.empty() || completion.bytes != message.bytes))
      fail_receive(message, completion);
    if (!completion.error.empty())
      throw TransportError("rank " + std::to_string(comm_->rank()) + ": sending to rank " +
                           std::to_string(message.peer) + ", " + describe_tag(message.tag, max_tag_) + ": " +
                           completion.error);
    done.push_back(&message);
  }
  return !completions_.empty();
}

bool MpiTransport::arrived(int peer, std::uint64_t tag) {
  return comm_->api().arrived(comm_->handle(), peer, static_cast<int>(tag));
}

void MpiTransport::fail_receive(const Message& message, const MpiCompletion& completion) const {
  if (!completion.error.empty() && !completion.truncated)
    throw TransportError("rank " + std::to_string(comm_->rank()) + ": receiving from rank " +
                         std::to_string(message.peer) + ", " + describe_tag(message.tag, max_tag_) + ": " +
                         completion.error);
  const bool untold = completion.truncated && completion.bytes == 0;
  raise_mismatch(message, comm_->rank(), untold ? "more" : std::to_string(completion.bytes), max_tag_,
                 /*same_stamp=*/true);
}

void MpiTransport::abort(const Failure& cause) {
  notes_.give_up(cause);
  leave();
}

Loss MpiTransport::lost(int peer) {
  if (Failure cause = notes_.given_up(peer)) return {"its process has given up", std::move(cause)};
  return {};
}

void MpiTransport::leave() {
  messages_->abandon();
  collectives_->abandon();
  comm_->retire();
  for (const auto& group : groups_) group->retire();
}

bool MpiTransport::runs(Kind kind, DType dtype, ReduceOp op) const {
  return !reduces(kind) || (mpi_reduces(dtype) && supports(op, dtype) && reduces_alike(dtype, op));
}

std::optional<int> MpiTransport::open_group(std::span<const int> ranks, std::uint32_t ordinal) {
  // A communicator for each ordinal: MPI matches the collectives of one communicator by the order of their calls.
  const GroupKey key{{ranks.begin(), ranks.end()}, ordinal};
  if (const auto known = group_of_.find(key); known != group_of_.end()) return known->second;
  auto opening = opening_.find(key);
  if (opening == opening_.end()) opening = opening_.emplace(key, comm_->group(ranks)).first;
  auto group = opening->second();
  if (!group) return {};
  opening_.erase(opening);
  groups_.push_back(std::move(group));
  return group_of_[key] = static_cast<int>(groups_.size()) - 1;
}

void MpiTransport::post_group(GroupCall& call) {
  const MpiCommunicator& group = *groups_.at(call.group);
  collectives_->post({.comm = group.handle(),
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

void MpiTransport::progress_groups(std::vector<GroupCall*>& done) {
  completions_.clear();
  collectives_->test(completions_);
  for (const MpiCompletion& completion : completions_) {
    auto* call = static_cast<GroupCall*>(completion.owner);
    if (!completion.error.empty())
      throw TransportError("rank " + std::to_string(comm_->rank()) + ": MPI's own collective on group " +
                           std::to_string(call->group) + " failed: " + completion.error);
    done.push_back(call);
  }
}

}  // namespace lanecast
