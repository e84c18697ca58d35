// SPDX-License-Identifier: Apache-2.0
#include "runtime/exchange.h"

#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/patience.h"
#include "runtime/wait_chain.h"

namespace lanecast {
namespace {

using Clock = std::chrono::steady_clock;

/// One all-gather: everyone sends to everyone.
class Exchange {
 public:
  Exchange(Router& router, const Gathering& gathering, std::span<std::byte> mine)
      : router_(router), gathering_(gathering), source_{mine.data(), mine.size()} {}

  void post(std::byte* all) {
    const std::size_t bytes = source_.bytes;
    const std::vector<int>& ranks = gathering_.ranks;
    targets_.resize(ranks.size());
    messages_.reserve(2 * ranks.size());  // they stay where they are posted
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      if (static_cast<int>(k) == gathering_.me || bytes == 0) continue;
      targets_[k] = {all + k * bytes, bytes};
      router_.to(ranks[k]).post_recv(add(ranks[k], targets_[k], /*receives=*/true));
      router_.to(ranks[k]).post_send(add(ranks[k], source_, /*receives=*/false));
    }
    open_ = messages_.size();
  }

  /// Puts the reason, where `meanwhile` knows one, in the place of an error.
  void look_for_reasons() const {
    if (gathering_.meanwhile) gathering_.meanwhile(missing(), Clock::now());
  }

  void wait() {
    Patience patience(Rivals::ranks);
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
      look_around(std::chrono::duration<double>(last_look - last_moved).count());
    }
  }

 private:
  struct Part final : Posted {
    void arrived() override {
      done = true;
      --exchange->open_;
    }
    Exchange* exchange = nullptr;
    bool receives = false;
    bool done = false;
  };

  Part& add(int peer, const Span& memory, bool receives) {
    Part& part = messages_.emplace_back();
    part.exchange = this;
    part.receives = receives;
    part.peer = peer;
    part.tag = call_tag(router_.to(peer), 0, gathering_.stamp);
    part.stamp = gathering_.stamp;
    part.bytes = memory.bytes;
    part.memory = {&memory, 1};
    return part;
  }

  std::vector<int> missing() const {
    std::vector<int> peers;
    for (const Part& message : messages_)
      if (message.receives && !message.done) peers.push_back(message.peer);
    return peers;
  }

  void look_around(double waited_s) {
    std::vector<int> awaited;
    for (const Part& message : messages_) {
      if (message.done) continue;
      if (awaited.empty() || awaited.back() != message.peer) awaited.push_back(message.peer);
      if (const Loss loss = router_.to(message.peer).lost(message.peer))
        raise({loss.cause.kind, "rank " + std::to_string(gathering_.ranks[gathering_.me]) + " lost rank " +
                                    std::to_string(message.peer) + " (" + loss.str() + ") in " + gathering_.what});
    }
    router_.publish_wait(awaited, waited_s >= kAskFrom * gathering_.timeout_s);
    end_at_deadline(router_, {gathering_.ranks[gathering_.me], awaited, waited_s, gathering_.timeout_s,
                              [&] { return gathering_.what + " over " + router_.str(); }});
  }

  Router& router_;
  const Gathering& gathering_;
  Span source_;
  std::vector<Span> targets_;
  std::vector<Part> messages_;
  std::size_t open_ = 0;
};

}  // namespace

Bootstrap bootstrap_over(std::shared_ptr<Router> router, Gathering gathering) {
  const int me = gathering.me;
  Bootstrap bootstrap{.rank = me, .size = static_cast<int>(gathering.ranks.size()), .all_gather = {}};
  bootstrap.all_gather = [router = std::move(router), gathering = std::move(gathering), me](const void* in, void* out,
                                                                                            std::size_t bytes) {
    auto* all = static_cast<std::byte*>(out);
    std::memcpy(all + me * bytes, in, bytes);
    Exchange exchange(*router, gathering, {all + me * bytes, bytes});
    try {
      try {
        exchange.post(all);
        exchange.wait();
      } catch (const TransportError&) {
        exchange.look_for_reasons();
        throw;
      }
    } catch (const std::exception& error) {
      router->abort(failure_of(error));  // before the messages go, which peers may be reading
      throw;
    }
  };
  return bootstrap;
}

}  // namespace lanecast
