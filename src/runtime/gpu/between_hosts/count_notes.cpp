// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/count_notes.h"

#include <algorithm>

#include "base/error.h"

namespace lanecast {

CountNotes::CountNotes(Router& router, int rank, std::vector<int> peers)
    : router_(router), rank_(rank), pairs_(peers.size()) {
  for (std::size_t k = 0; k < peers.size(); ++k) pairs_[k].peer = peers[k];
}

void CountNotes::begin(const OwnCounts& own, const std::function<std::uint64_t(const Transport&)>& tag_to,
                       std::uint32_t stamp) {
  under_way_ = 2 * pairs_.size();
  for (NotedPair& pair : pairs_) {
    pair.sent.content = {own.gives[pair.peer], own.takes[pair.peer]};
    Transport& transport = router_.to(pair.peer);
    const Router::Visit visit(router_, transport, pair.peer);
    for (CountNote* const note : {&pair.received, &pair.sent}) {
      note->owner = this;
      note->is_done = false;
      note->span = {reinterpret_cast<std::byte*>(&note->content), sizeof note->content};
      note->memory = {&note->span, 1};
      note->bytes = note->span.bytes;
      note->peer = pair.peer;
      note->stamp = stamp;
      note->tag = tag_to(transport);
    }
    transport.post_recv(pair.received);
    transport.post_send(pair.sent);
  }
}

bool CountNotes::heard_from(int peer) const {
  return std::ranges::any_of(pairs_,
                             [peer](const NotedPair& pair) { return pair.peer == peer && pair.received.is_done; });
}

std::vector<int> CountNotes::silent() const {
  std::vector<int> peers;
  for (const NotedPair& pair : pairs_)
    if (!pair.received.is_done) peers.push_back(pair.peer);
  return peers;
}

void CountNotes::compare(const std::string& call) const {
  for (const NotedPair& pair : pairs_) {
    const GivenAndTaken &mine = pair.sent.content, &theirs = pair.received.content;
    if (!pair.received.is_done || (mine.gives == theirs.takes && mine.takes == theirs.gives)) continue;
    const bool given = mine.gives != theirs.takes;
    const int from = given ? rank_ : pair.peer, to = given ? pair.peer : rank_;
    const std::uint64_t sends = given ? mine.gives : theirs.gives, expects = given ? theirs.takes : mine.takes;
    throw MismatchError("the ranks' counts differ in " + call + ": rank " + std::to_string(from) + " sends " +
                        std::to_string(sends) + " elements to rank " + std::to_string(to) + ", and rank " +
                        std::to_string(to) + " expects " + std::to_string(expects) + " elements from rank " +
                        std::to_string(from) + "; give both the same");
  }
}

}  // namespace lanecast
