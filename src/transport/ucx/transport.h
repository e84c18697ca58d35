// SPDX-License-Identifier: Apache-2.0
// The transport over UCX: tagged messages between processes of any hosts, without a launcher of MPI's. The thread that
// makes the calls moves them, and where there are lanes, those move most of each long one beside it.
#pragma once

#include <deque>
#include <vector>

#include "transport/notes.h"
#include "transport/transport.h"
#include "transport/ucx/gpu_memory.h"
#include "transport/ucx/lanes.h"
#include "transport/ucx/note_carrier.h"
#include "transport/ucx/worker.h"

namespace lanecast {

class UcxTransport final : public Transport {
 public:
  /// Collective. lanes: threads beside the caller's; the least number of all ranks counts. drivers: has the user
  /// decided that messages lie on GPUs, whatever UCX does about it?
  explicit UcxTransport(const Bootstrap& bootstrap, int lanes = 0, ucx::Drivers drivers = ucx::Drivers::apart);
  ~UcxTransport() override;

  std::string_view name() const override { return "ucx"; }
  bool reaches(int peer) const override { return peer >= 0 && peer < worker_.size() && peer != worker_.rank(); }
  Traits traits() const override {
    return {.max_tag = kMostTags,
            .scatters = true,
            .moves_by_itself = lanes_.count() > 0,
            .nics_at_once = lanes_.nics_at_once(),
            .shares_wires = true,
            .announces = true};
  }
  /// Not where lanes move bytes: they are there for networks to which a GPU's memory has to be copied anyway.
  std::optional<bool> takes(GpuVendor vendor) const override;
  std::string why_undecided(GpuVendor vendor) const override;
  void register_memory(const GpuSpan& memory) override { gpu_memory_.add(worker_, memory, drivers_); }
  void unregister_memory(const GpuSpan& memory) override { gpu_memory_.remove(worker_, memory); }

  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  void abort(const Failure& cause) override;
  Witness& witness() override { return notes_; }

 private:
  /// It sees as well whose connection has ended, and makes connections to those whose messages are carried.
  class WorkerWitness final : public Notes {
   public:
    explicit WorkerWitness(UcxTransport& owner) : Notes(owner.note_carrier_), owner_(owner) {}
    void carries(std::span<const int> peers) override;
    Loss lost(int peer) override;
    /// Not where UCX has not let go of a message: it must not move while its memory may be the caller's again.
    bool tell() override { return owner_.has_let_go() && Notes::tell(); }

   private:
    UcxTransport& owner_;
  };

  bool has_let_go() const;
  /// Aborted, and UCX has memory that may be the caller's again: nothing may make it go on.
  bool is_stuck() const { return left_ && !has_let_go(); }
  // A tag of UCX's is the sender's rank and ours: messages of two senders never match one receive.
  static constexpr int kTagBits = 40;
  static constexpr std::uint64_t kMostTags = std::uint64_t{1} << kTagBits;

  /// What has come of one of the pieces that a message is moved in: all of it, or its head and a lane's share.
  struct PieceOutcome {
    ucx::Status status = 0;
    std::size_t bytes = 0, arrived = 0;  // the latter of a receive
    bool share = false;
    std::string failure;  // of its connection
  };
  struct MessageInPieces {
    UcxTransport* transport = nullptr;
    Message* message = nullptr;
    bool receive = false;
    ucx::Request request = nullptr;  // of what this thread moves, while UCX has it
    std::size_t bytes = 0;           // of that
    std::vector<Span> head;
    std::vector<ucx::LaneShare> shares;
    std::size_t unfinished = 0;  // pieces
    bool failed = false;
    PieceOutcome piece;  // the one that has failed, if one has
  };

  static std::uint64_t tag_of(int sender, std::uint64_t tag) {
    return static_cast<std::uint64_t>(sender) << kTagBits | tag;
  }
  MessageInPieces& begin(Message& message, bool receive);
  /// What this thread moves of it.
  std::span<const Span> own_part(const MessageInPieces& transfer) const;
  void started(MessageInPieces& transfer, ucx::Request request);
  void ended(MessageInPieces& transfer, ucx::Status status, std::size_t arrived);
  void ended(MessageInPieces& transfer, const PieceOutcome& piece);
  void take_shares();
  std::string describe_arrived(const PieceOutcome& piece) const;
  /// Throws for one that went wrong; whether it is done: what a failed connection has ended is not.
  bool judge(const MessageInPieces& transfer);

  const ucx::Drivers drivers_;
  ucx::Worker worker_;
  ucx::GpuMemoryMap gpu_memory_;
  ucx::UcxNoteCarrier note_carrier_;
  WorkerWitness notes_;
  std::deque<MessageInPieces> transfers_;  // stay where they are
  std::vector<MessageInPieces*> free_, ended_, taken_;
  std::vector<ucx::LaneShare*> shares_;
  std::vector<std::string> failures_;  // of lanes' connections, by peer
  bool left_ = false;                  // aborted
  ucx::UcxLanes lanes_;                // the last: their threads end before what they hand back goes
};

}  // namespace lanecast
