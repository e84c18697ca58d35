// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi.h"

#include <string>

#include "base/error.h"

namespace lanecast {

MpiTransport::MpiTransport(std::shared_ptr<MpiCommunicator> comm)
    : comm_(std::move(comm)),
      max_tag_(static_cast<std::uint64_t>(comm_->message_tags() - 1)),  // the last one is that of the notes
      messages_(comm_->api().requests()),
      note_carrier_(*comm_, comm_->message_tags() - 1),
      notes_(note_carrier_),
      groups_(comm_) {}

MpiTransport::~MpiTransport() {
  if (!messages_->empty() || !groups_.idle()) leave();
}

MpiMessage MpiTransport::as_mpi_has_it(const Message& message) const {
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

std::string MpiTransport::why_undecided(GpuVendor vendor) const {
  if (!comm_->api().takes(vendor)) return {};
  return "this MPI says that it takes GPUs' memory, and calls the GPU's driver while messages move";
}

void MpiTransport::post_send(Message& message) { messages_->send(as_mpi_has_it(message), &message); }

void MpiTransport::post_recv(Message& message) { messages_->receive(as_mpi_has_it(message), &message); }

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

void MpiTransport::leave() {
  messages_->abandon();
  groups_.abandon();
  comm_->retire();
}

}  // namespace lanecast
