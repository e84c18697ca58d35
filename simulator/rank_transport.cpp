// SPDX-License-Identifier: Apache-2.0
#include "rank_transport.h"

#include <algorithm>

#include "device.h"

namespace lanecast::simulator {

void RankClock::settle() { busy_until_s += take_owed_s(); }

double RankTransport::message_s(int peer) const {
  const int per_node = job_.machine.ranks_per_node();
  return rank_ / per_node == peer / per_node ? job_.message_within_s : job_.message_s;
}

void RankTransport::post_send(Message& message) {
  clock_.settle();
  clock_.busy_until_s += message_s(message.peer);
  posted_.push_back({&message});
  office_.send(rank_, message, clock_.busy_until_s);
}

void RankTransport::post_recv(Message& message) {
  clock_.settle();
  posted_.push_back({&message});
  office_.receive(rank_, message, clock_.busy_until_s);
}

void RankTransport::finish(const Message& message, bool is_next) {
  std::ranges::find(posted_, &message, &PostedMessage::message)->is_finished = true;
  ++finished_;
  if (is_next) next_ = &message;
}

bool RankTransport::progress(std::vector<Message*>& done) {
  if (finished_ == 0) return false;
  const auto found = next_ ? std::ranges::find(posted_, next_, &PostedMessage::message)
                           : std::ranges::find(posted_, true, &PostedMessage::is_finished);
  next_ = nullptr;
  --finished_;
  done.push_back(found->message);
  *found = posted_.back();  // as MPI's requests lie
  posted_.pop_back();
  return true;
}

}  // namespace lanecast::simulator
