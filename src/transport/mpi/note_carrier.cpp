// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/note_carrier.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {

MpiNoteCarrier::MpiNoteCarrier(const MpiCommunicator& comm, int tag)
    : comm_(comm), tag_(tag), sending_(comm.api().requests()), receiving_(comm.api().requests()) {}

MpiNoteCarrier::~MpiNoteCarrier() {
  sending();
  // A note whose peer never looks is MPI's for good: little more than 1 KiB, and only where something went wrong.
  if (!sending_->empty())
    for (auto& note : sent_) static_cast<void>(note.release());
}

void MpiNoteCarrier::listen_to(int rank) {
  auto& buffer = arriving_[rank];
  if (buffer) return;
  buffer = std::make_unique<NoteBuffer>();
  buffer->rank = rank;
  receive_into(*buffer);
}

void MpiNoteCarrier::receive_into(NoteBuffer& buffer) {
  receiving_->receive({comm_.handle(), buffer.rank, tag_, buffer.bytes.data(), buffer.bytes.size()}, &buffer);
}

void MpiNoteCarrier::take_arrived(const Take& take) {
  if (!comm_.api().alive()) return;
  std::vector<MpiCompletion> arrived;
  receiving_->test(arrived);
  for (const MpiCompletion& completion : arrived) {
    auto& buffer = *static_cast<NoteBuffer*>(completion.owner);
    take(buffer.rank, std::span(buffer.bytes).first(completion.bytes));
    receive_into(buffer);
  }
}

void MpiNoteCarrier::send(int rank, std::span<const std::byte> note) {
  if (!comm_.api().alive()) return;
  sent_.push_back(std::make_unique<NoteBuffer>());
  NoteBuffer& buffer = *sent_.back();
  std::ranges::copy(note, buffer.bytes.begin());
  sending_->send({comm_.handle(), rank, tag_, buffer.bytes.data(), note.size()}, nullptr);
  sending();
}

bool MpiNoteCarrier::sending() {
  if (!comm_.api().alive()) return false;
  completions_.clear();
  try {
    sending_->test(completions_);
  } catch (const TransportError&) {
    return false;  // as where a completion holds an error: who waits for an answer has a deadline of its own
  }
  if (sending_->empty()) sent_.clear();
  return !sending_->empty();
}

}  // namespace lanecast
