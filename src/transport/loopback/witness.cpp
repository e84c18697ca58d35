// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/witness.h"

namespace lanecast {

Loss MailboxWitness::lost(int peer) {
  Loss loss;
  {
    LoopbackMailbox& theirs = (*channel_)[peer];
    std::shared_lock in_use(theirs.in_use);
    loss = theirs.gone();
  }
  // What the peer did before it left still counts: let progress() report it first.
  std::lock_guard lock(mine().mutex);
  return mine().taken.empty() ? loss : Loss{};
}

std::optional<int> MailboxWitness::given_up() {
  for (int peer = 0; peer < channel_->size(); ++peer) {
    LoopbackMailbox& theirs = (*channel_)[peer];
    std::shared_lock in_use(theirs.in_use);
    if (peer != rank_ && theirs.state == LoopbackMailbox::State::aborted) return peer;
  }
  return {};
}

}  // namespace lanecast
