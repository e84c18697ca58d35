// SPDX-License-Identifier: Apache-2.0
// The transport over UCX: tagged messages between processes of any hosts, without a launcher of MPI's.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transport/noting_transport.h"
#include "transport/ucx/note_carrier.h"
#include "transport/ucx/worker.h"

namespace lanecast {

class UcxTransport final : public NotingTransport {
 public:
  /// Collective.
  explicit UcxTransport(const Bootstrap& bootstrap);
  ~UcxTransport() override;

  std::string_view name() const override { return "ucx"; }
  bool reaches(int peer) const override { return peer >= 0 && peer < worker_.size() && peer != worker_.rank(); }
  std::uint64_t max_tag() const override { return kMostTags; }
  bool scatters() const override { return true; }

  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  bool progress(std::vector<Message*>& done) override;
  bool arrived(int peer, std::uint64_t tag) override;
  void abort(const Failure& cause) override;
  /// Not where UCX has not let go of a message: it must not move while its memory may be the caller's again.
  bool tell() override { return has_let_go() && NotingTransport::tell(); }
  Loss lost(int peer) override;

 private:
  bool has_let_go() const;
  Notes& notes() override { return notes_; }
  // A tag of UCX's is the sender's rank and ours: messages of two senders never match one receive.
  static constexpr int kTagBits = 40;
  static constexpr std::uint64_t kMostTags = std::uint64_t{1} << kTagBits;

  struct Transfer {
    UcxTransport* transport = nullptr;
    Message* message = nullptr;
    ucx::Request request = nullptr;  // while UCX has it
    ucx::Status status = 0;
    std::size_t bytes = 0;  // received
    bool receive = false;
  };

  static std::uint64_t tag_of(int sender, std::uint64_t tag) {
    return static_cast<std::uint64_t>(sender) << kTagBits | tag;
  }
  Transfer& begin(Message& message, bool receive);
  void started(Transfer& transfer, ucx::Request request);
  void ended(Transfer& transfer, ucx::Status status);
  /// Throws for one that went wrong; whether it is done: what a failed connection has ended is not.
  bool judge(const Transfer& transfer) const;

  ucx::Worker worker_;
  ucx::NoteCarrier note_carrier_;
  Notes notes_;
  std::deque<Transfer> transfers_;  // stay where they are
  std::vector<Transfer*> free_, ended_, taken_;
  bool left_ = false;  // aborted
};

}  // namespace lanecast
