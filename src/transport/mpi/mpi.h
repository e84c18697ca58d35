// SPDX-License-Identifier: Apache-2.0
// The transport over MPI: messages by non-blocking point-to-point calls, groups by MPI's own collectives: groups.h.
#pragma once

#include <memory>
#include <vector>

#include "transport/mpi/communicator.h"
#include "transport/mpi/groups.h"
#include "transport/mpi/note_carrier.h"
#include "transport/notes.h"
#include "transport/transport.h"

namespace lanecast {

/// Needs MPI's thread support only as far as its caller does: `serialized` when calls come from changing threads one at
/// a time, `multiple` when another thread uses MPI at the same time.
class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(std::shared_ptr<MpiCommunicator> comm);
  ~MpiTransport() override;

  std::string_view name() const override { return "mpi"; }
  bool reaches(int peer) const override { return peer >= 0 && peer < comm_->size(); }
  Traits traits() const override { return {.max_tag = max_tag_, .shares_wires = true, .announces = true}; }
  /// It asks the driver about memory and has it copy, in whichever thread calls MPI.
  std::optional<bool> takes(GpuVendor) const override { return {}; }
  std::string why_undecided(GpuVendor vendor) const override;

  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  /// Retires the communicator too, which a bootstrap may share. Cannot keep the whole promise of Transport::abort: see
  /// MpiRequests::abandon for the memory that stays MPI's.
  void abort(const Failure& cause) override;
  /// By notes alone: MPI itself does not tell who is gone.
  Witness& witness() override { return notes_; }
  Groups* groups() override { return &groups_; }

 private:
  void leave();
  MpiMessage as_mpi_has_it(const Message& message) const;
  [[noreturn]] void fail_receive(const Message& message, const MpiCompletion& completion) const;

  // Requests go before the communicators they run on, so they are declared after.
  std::shared_ptr<MpiCommunicator> comm_;
  std::uint64_t max_tag_;
  std::unique_ptr<MpiRequests> messages_;
  MpiNoteCarrier note_carrier_;
  Notes notes_;
  MpiGroups groups_;
  std::vector<MpiCompletion> completions_;
};

}  // namespace lanecast
