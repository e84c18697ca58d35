// SPDX-License-Identifier: Apache-2.0
// One rank's transport on the simulated network. It can do what the one over MPI can: neither scatter nor add.
#pragma once

#include <vector>

#include "post_office.h"
#include "transport/witness.h"

namespace lanecast::simulator {

/// What a rank's processor and its device, which do one thing after the other, have done up to.
struct RankClock {
  double busy_until_s = 0;

  /// Adds what the rank owes its device since it was last asked.
  void settle();
};

class RankTransport final : public Transport {
 public:
  RankTransport(int rank, const Job& job, RankClock& clock, PostOffice& office)
      : rank_(rank), job_(job), clock_(clock), office_(office) {}

  std::string_view name() const override { return "simulated"; }
  bool reaches(int) const override { return true; }
  Traits traits() const override { return {.shares_wires = true}; }
  void post_send(Message& message) override;
  void post_recv(Message& message) override;
  /// One at a time: what is unpacked of it takes time, in which others come.
  bool progress(std::vector<Message*>& done) override;
  void abort(const Failure&) override {}
  Witness& witness() override { return witness_; }

  /// The network has moved it. is_next: ahead of others, because the rank waits for whatever comes.
  void finish(const Message& message, bool is_next);
  bool is_idle() const { return posted_.empty(); }
  bool has_finished() const { return finished_ > 0; }

 private:
  struct PostedMessage {
    Message* message;
    bool is_finished = false;
  };
  /// Of software, to send to that rank.
  double message_s(int peer) const;

  int rank_;
  const Job& job_;
  RankClock& clock_;
  PostOffice& office_;
  std::vector<PostedMessage> posted_;
  std::size_t finished_ = 0;
  const Message* next_ = nullptr;
  Witness witness_;
};

}  // namespace lanecast::simulator
