// SPDX-License-Identifier: Apache-2.0
// What the ranks of one loopback communicator share: a mailbox each. A message is matched in its receiver's mailbox
// and never copied there: the receiver copies from the sender's memory into its own.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "transport/call_board.h"
#include "transport/tag_queues.h"
#include "transport/transport.h"
#include "transport/wait_board.h"
#include "transport/want_board.h"
#include "transport/witness.h"

namespace lanecast {

/// A send and the receive it meets. `send` may be looked at only while the sender's `in_use` is held and it is open.
struct LoopbackMatch {
  int source = -1;
  Message* send = nullptr;
  Message* receive = nullptr;
};

struct LoopbackMailbox {
  explicit LoopbackMailbox(int size) : wants(size), sends(size), receives(size) {}

  enum class State { absent, open, closed, aborted };

  // Receivers hold `in_use` shared while they read this rank's messages; the rank takes it alone to give them up. So
  // abort() returns only when nobody reads its memory any more, and whoever comes later sees the new state.
  std::shared_mutex in_use;
  State state = State::absent;  // guarded by in_use
  Failure cause;                // the state is aborted; guarded by in_use

  /// Why this rank can no longer answer; to be asked with in_use held.
  Loss gone() const {
    if (state == State::closed) return {"its thread has closed its transport", {}, /*left=*/true};
    if (state == State::aborted) return {"its thread has given up", cause};
    return {};
  }

  CallBoard calls;               // of this rank
  WaitBoard waits;               // of this rank
  std::vector<WantBoard> wants;  // of this rank, [peer]

  std::mutex mutex;                           // guards everything below
  std::vector<TagQueues<Message*>> sends;     // [source]: to this rank, not yet matched
  std::vector<TagQueues<Message*>> receives;  // [source]: of this rank, not yet matched
  std::vector<LoopbackMatch> matches;         // for this rank to copy
  std::vector<Message*> taken;                // sends of this rank whose receivers have copied them
};

class LoopbackChannel {
 public:
  explicit LoopbackChannel(int size) {
    for (int r = 0; r < size; ++r) mailboxes_.push_back(std::make_unique<LoopbackMailbox>(size));
  }
  int size() const { return static_cast<int>(mailboxes_.size()); }
  LoopbackMailbox& operator[](int rank) { return *mailboxes_[rank]; }

 private:
  std::vector<std::unique_ptr<LoopbackMailbox>> mailboxes_;
};

}  // namespace lanecast
