// SPDX-License-Identifier: Apache-2.0
#include "runtime/agree/volley.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/agree/wait_chain.h"

namespace lanecast {

using Clock = std::chrono::steady_clock;

Volley::Shot& Volley::add(int peer, const Span& memory, bool receives) {
  Shot& part = messages_.emplace_back();
  part.volley = this;
  part.span = memory;
  part.receives = receives;
  part.peer = peer;
  part.tag = call_tag(router_.to(peer), 0, gathering_.stamp);
  part.stamp = gathering_.stamp;
  part.bytes = memory.bytes;
  part.memory = {&part.span, 1};
  ++open_;
  return part;
}

std::vector<int> Volley::missing() const {
  std::vector<int> peers;
  for (const Shot& message : messages_)
    if (message.receives && !message.done) peers.push_back(message.peer);
  return peers;
}

void Volley::look_for_reasons() const {
  if (gathering_.meanwhile) gathering_.meanwhile(missing(), Clock::now());
}

void Volley::wait() {
  Patience patience(rivals_);
  ran_.look(gathering_.timeout_s);
  auto last_look = Clock::now(), last_moved = last_look;
  bool stood = true;  // still since last_moved
  while (open_ > 0) {
    const bool moved = router_.progress();
    if (moved) {
      patience.reset();
      stood = false;
    }
    if (moved || !patience.pause() || Clock::now() - last_look < kLookEvery) continue;
    last_look = Clock::now();
    if (!std::exchange(stood, true)) last_moved = last_look;
    if (gathering_.meanwhile) gathering_.meanwhile(missing(), last_moved);
    ran_.look(gathering_.timeout_s);
    look_around(ran_.seconds_since(last_moved, last_look));
  }
}

void Volley::look_around(double waited_s) {
  std::vector<int> awaited;
  for (const Shot& message : messages_) {
    if (message.done) continue;
    if (awaited.empty() || awaited.back() != message.peer) awaited.push_back(message.peer);
    if (const Loss loss = router_.witness(message.peer).lost(message.peer))
      raise({loss.cause.kind, "rank " + std::to_string(gathering_.ranks[gathering_.me]) + " lost rank " +
                                  std::to_string(message.peer) + " (" + loss.str() + ") in " + gathering_.what});
  }
  router_.publish_wait(awaited, waited_s >= kAskFrom * gathering_.timeout_s);
  end_at_deadline(router_, {gathering_.ranks[gathering_.me], awaited, waited_s, gathering_.timeout_s, ran_,
                            [&] { return gathering_.what + " over " + router_.str(); }});
}

}  // namespace lanecast
