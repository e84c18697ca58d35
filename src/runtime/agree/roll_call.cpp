// SPDX-License-Identifier: Apache-2.0
#include "runtime/agree/roll_call.h"

#include <algorithm>

namespace lanecast {

RollCall::RollCall(Router& router, const std::vector<std::vector<int>>& sets, std::size_t which, int me)
    : router_(router), members_(sets[which]) {
  const std::size_t n = members_.size();
  const auto my_place = static_cast<std::size_t>(std::ranges::find(members_, me) - members_.begin());
  const auto add = [&](std::deque<Token>& tokens, int peer) {
    Token& token = tokens.emplace_back();
    token.roll = this;
    token.peer = peer;
    for (std::size_t k = 0; k < which; ++k) token.number += std::ranges::count(sets[k], peer);
    token.bytes = 1;
    token.span = {&token.byte, 1};
    token.memory = {&token.span, 1};
  };
  for (std::size_t reach = 1; reach < n; reach *= 2) {
    add(sends_, members_[(my_place + reach) % n]);
    add(receives_, members_[(my_place + n - reach) % n]);
  }
}

void RollCall::begin(std::uint32_t stamp) {
  stamp_ = stamp;
  sent_ = 0;
  open_ = sends_.size() + receives_.size();
  for (Token& token : receives_) token.done = false;
  for (std::size_t round = 0; round < receives_.size(); ++round)
    router_.to(receives_[round].peer).post_recv(addressed(receives_[round], round));
  go_on();
}

void RollCall::go_on() {
  while (sent_ < sends_.size() && (sent_ == 0 || receives_[sent_ - 1].done)) {
    Token& token = addressed(sends_[sent_], sent_);
    ++sent_;
    router_.to(token.peer).post_send(token);
  }
}

RollCall::Token& RollCall::addressed(Token& token, std::size_t round) const {
  constexpr std::uint64_t kMostRounds = 32;
  const Transport& transport = router_.to(token.peer);
  // From the end of the steps' tags, where no plan comes.
  const std::uint64_t ordinal =
      first_message_tag(transport.traits().max_tag) - 1 - (token.number * kMostRounds + round);
  token.stamp = stamp_;
  token.tag = call_tag(transport, ordinal, stamp_);
  return token;
}

void RollCall::Token::arrived() {
  done = true;
  --roll->open_;
  roll->go_on();
}

std::vector<int> RollCall::awaited_peers() const {
  std::vector<int> peers;
  for (const Token& token : receives_)
    if (!token.done) peers.push_back(token.peer);
  return peers;
}

}  // namespace lanecast
