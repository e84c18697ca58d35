// SPDX-License-Identifier: Apache-2.0
// Notes as MPI's messages, under a tag of their own.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "transport/mpi/communicator.h"
#include "transport/notes.h"

namespace lanecast {

/// Receives are posted for single ranks: of one that takes any rank's, MPICH over UCX is late to see what comes.
class MpiNoteCarrier final : public NoteCarrier {
 public:
  MpiNoteCarrier(const MpiCommunicator& comm, int tag);
  ~MpiNoteCarrier() override;

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  void listen_to(int rank) override;
  bool has_unheard() override { return comm_.api().alive() && comm_.api().arrived_from_any(comm_.handle(), tag_); }
  void send(int rank, std::span<const std::byte> note) override;
  bool sending() override;
  void take_arrived(const Take& take) override;

 private:
  struct NoteBuffer {
    int rank = -1;
    std::array<std::byte, kMostBytes> bytes;
  };
  void receive_into(NoteBuffer& buffer);

  const MpiCommunicator& comm_;
  const int tag_;
  std::map<int, std::unique_ptr<NoteBuffer>> arriving_;  // by rank
  std::vector<std::unique_ptr<NoteBuffer>> sent_;        // MPI may read them until the transport goes
  std::unique_ptr<MpiRequests> sending_, receiving_;
  std::vector<MpiCompletion> completions_;
};

}  // namespace lanecast
