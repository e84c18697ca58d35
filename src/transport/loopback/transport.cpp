// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/transport.h"

#include "base/error.h"
#include "transport/span_cursor.h"

namespace lanecast {

using State = LoopbackMailbox::State;

LoopbackTransport::LoopbackTransport(const std::shared_ptr<LoopbackWorld>& world, int rank, std::uint64_t channel)
    : channel_(world->channel(channel)), rank_(rank), witness_(channel_, rank) {
  if (rank < 0 || rank >= world->size())
    throw UsageError("rank " + std::to_string(rank) + " is outside a loopback world of " +
                     std::to_string(world->size()));
  std::lock_guard lock(mine().in_use);
  if (mine().state != State::absent)
    throw UsageError("rank " + std::to_string(rank) + " already has a transport on loopback channel " +
                     std::to_string(channel));
  mine().state = State::open;
}

LoopbackTransport::~LoopbackTransport() { leave(State::closed, {}); }
void LoopbackTransport::abort(const Failure& cause) { leave(State::aborted, cause); }

void LoopbackTransport::leave(State state, const Failure& cause) {
  {
    std::lock_guard lock(mine().in_use);
    if (mine().state != State::open) return;
    mine().state = state;
    mine().cause = cause;
  }
  std::lock_guard lock(mine().mutex);
  for (auto& queues : mine().receives) queues = {};
  mine().matches.clear();
  mine().taken.clear();
}

void LoopbackTransport::post_send(Message& message) {
  LoopbackMailbox& to = (*channel_)[message.peer];
  std::lock_guard lock(to.mutex);
  if (auto receive = to.receives[rank_].pop(message.tag))
    to.matches.push_back({rank_, &message, *receive});
  else
    to.sends[rank_].push(message.tag, &message);
}

void LoopbackTransport::post_recv(Message& message) {
  std::lock_guard lock(mine().mutex);
  if (auto send = mine().sends[message.peer].pop(message.tag))
    mine().matches.push_back({message.peer, *send, &message});
  else
    mine().receives[message.peer].push(message.tag, &message);
}

bool LoopbackTransport::progress(std::vector<Message*>& done) {
  matches_.clear();
  {
    std::lock_guard lock(mine().mutex);
    done.insert(done.end(), mine().taken.begin(), mine().taken.end());
    mine().taken.clear();
    matches_.swap(mine().matches);
  }
  for (const LoopbackMatch& match : matches_) {
    copy(match);
    done.push_back(match.receive);
  }
  return !done.empty();
}

bool LoopbackTransport::arrived(int peer, std::uint64_t tag) {
  std::lock_guard lock(mine().mutex);
  return mine().sends[peer].front(tag) != nullptr;
}

void LoopbackTransport::copy(const LoopbackMatch& match) {
  LoopbackMailbox& source = (*channel_)[match.source];
  {
    std::shared_lock in_use(source.in_use);
    if (source.state != State::open)
      throw TransportError("rank " + std::to_string(match.source) +
                           " left before its message was taken: " + source.gone().str());
    const Message &from = *match.send, &to = *match.receive;
    if (from.bytes != to.bytes || from.stamp != to.stamp)
      raise_mismatch(to, rank_, std::to_string(from.bytes), traits().max_tag, from.stamp == to.stamp);
    SpanCursor in(from.memory), out(to.memory);
    for (std::size_t offset = 0; offset < from.bytes;) {
      const Span piece = in.take(from.bytes - offset);
      if (to.consumer)
        to.consumer->consume(offset, piece.data, piece.bytes);
      else
        out.scatter(piece.data, piece.bytes);
      offset += piece.bytes;
    }
  }
  // The mutex orders the copy before the sender's reuse of its memory: it learns of `taken` under the same mutex.
  std::lock_guard lock(source.mutex);
  source.taken.push_back(match.send);
}

}  // namespace lanecast
