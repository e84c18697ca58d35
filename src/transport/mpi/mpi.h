// SPDX-License-Identifier: Apache-2.0
// The transport over MPI: messages by non-blocking point-to-point calls, groups by MPI's own non-blocking collectives.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "transport/mpi/communicator.h"
#include "transport/mpi/note_carrier.h"
#include "transport/noting_transport.h"

namespace lanecast {

/// Needs MPI's thread support only as far as its caller does: `serialized` when calls come from changing threads one at
/// a time, `multiple` when another thread uses MPI at the same time.
class MpiTransport final : public NotingTransport {
 public:
  explicit MpiTransport(std::shared_ptr<MpiCommunicator> comm);
  ~MpiTransport() override;

  std::string_view name() const override { return "mpi"; }
  bool reaches(int peer) const override { return peer >= 0 && peer < comm_->size(); }
  /// It asks the driver about memory and has it copy, in whichever thread calls MPI.
  std::optional<bool> takes(GpuMemory) const override { return {}; }
  std::string why_undecided(GpuMemory memory) const override;
  bool shares_wires() const override { return true; }
  std::uint64_t max_tag() const override { return max_tag_; }

  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  /// Retires the communicator too, which a bootstrap may share. Cannot keep the whole promise of Transport::abort: see
  /// MpiRequests::abandon for the memory that stays MPI's.
  void abort(const Failure& cause) override;
  /// MPI itself does not tell who is gone: only what a peer has said before it gave up.
  Loss lost(int peer) override;

  bool runs(Kind kind, DType dtype, ReduceOp op) const override;
  std::optional<int> open_group(std::span<const int> ranks, std::uint32_t ordinal) override;
  bool has_group(std::span<const int> ranks, std::uint32_t ordinal) const override {
    return group_of_.contains({{ranks.begin(), ranks.end()}, ordinal});
  }
  void post_group(GroupCall& call) override;
  void progress_groups(std::vector<GroupCall*>& done) override;

 private:
  Notes& notes() override { return notes_; }
  void leave();
  MpiMessage native(const Message& message) const;
  [[noreturn]] void fail_receive(const Message& message, const MpiCompletion& completion) const;

  // Requests go before the communicators they run on, so they are declared after.
  std::shared_ptr<MpiCommunicator> comm_;
  std::vector<std::shared_ptr<MpiCommunicator>> groups_;
  using GroupKey = std::pair<std::vector<int>, std::uint32_t>;  // ranks and ordinal
  std::map<GroupKey, int> group_of_;
  std::map<GroupKey, MpiCommunicator::Making> opening_;
  std::uint64_t max_tag_;
  std::unique_ptr<MpiRequests> messages_;
  std::unique_ptr<MpiRequests> collectives_;
  MpiNoteCarrier note_carrier_;
  Notes notes_;
  std::vector<MpiCompletion> completions_;
};

}  // namespace lanecast
