// SPDX-License-Identifier: Apache-2.0
#include "runtime/exchange.h"

#include <chrono>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/patience.h"
#include "runtime/wait_chain.h"

namespace lanecast {
namespace {

using Clock = std::chrono::steady_clock;

/// One all-gather: everyone sends to everyone.
class Exchange {
 public:
  Exchange(Router& router, const std::vector<int>& ranks, std::span<std::byte> mine, const std::string& what)
      : router_(router), source_{mine.data(), mine.size()}, ranks_(ranks), what_(what) {}

  void post(int me, std::byte* all) {
    const std::size_t bytes = source_.bytes;
    targets_.resize(ranks_.size());
    messages_.reserve(2 * ranks_.size());  // they stay where they are posted
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      if (static_cast<int>(k) == me || bytes == 0) continue;
      targets_[k] = {all + k * bytes, bytes};
      router_.to(ranks_[k]).post_recv(add(ranks_[k], targets_[k]));
      router_.to(ranks_[k]).post_send(add(ranks_[k], source_));
    }
    open_ = messages_.size();
  }

  void wait(double timeout_s) {
    Patience patience(Rivals::ranks);
    const auto begin = Clock::now();
    auto last_look = begin;
    while (open_ > 0) {
      const bool moved = router_.progress();
      if (moved) patience.reset();
      if (moved || !patience.pause() || Clock::now() - last_look < kLookEvery) continue;
      last_look = Clock::now();
      look_around(std::chrono::duration<double>(last_look - begin).count(), timeout_s);
    }
  }

 private:
  struct Part final : Posted {
    void arrived() override {
      done = true;
      --exchange->open_;
    }
    Exchange* exchange = nullptr;
    bool done = false;
  };

  Part& add(int peer, const Span& memory) {
    Part& part = messages_.emplace_back();
    part.exchange = this;
    part.peer = peer;
    part.bytes = memory.bytes;
    part.memory = {&memory, 1};
    return part;
  }

  void look_around(double waited_s, double timeout_s) {
    std::string missing;
    std::vector<int> awaited;
    for (const Part& message : messages_) {
      if (message.done) continue;
      awaited.push_back(message.peer);
      const std::string peer = std::to_string(message.peer);
      if (const Loss loss = router_.to(message.peer).lost(message.peer))
        raise({loss.cause.kind, what_ + ": lost rank " + peer + " (" + loss.str() + ")"});
      if (!missing.ends_with(" " + peer)) missing.append(missing.empty() ? " " : ", ").append(peer);
    }
    router_.publish_wait(awaited, waited_s >= kAskFrom * timeout_s);
    if (waited_s >= timeout_s)
      throw TimeoutError(what_ + ": waited " + std::to_string(waited_s) + " s for rank" + missing +
                         "; is that rank alive, and has it made the same call?");
  }

  Router& router_;
  Span source_;
  const std::vector<int>& ranks_;
  const std::string& what_;
  std::vector<Span> targets_;
  std::vector<Part> messages_;
  std::size_t open_ = 0;
};

}  // namespace

Bootstrap bootstrap_over(std::shared_ptr<Router> router, std::vector<int> ranks, int me, double timeout_s,
                         const std::string& what) {
  Bootstrap bootstrap{.rank = me, .size = static_cast<int>(ranks.size()), .all_gather = {}};
  bootstrap.all_gather = [router = std::move(router), ranks = std::move(ranks), me, timeout_s, what](
                             const void* in, void* out, std::size_t bytes) {
    auto* all = static_cast<std::byte*>(out);
    std::memcpy(all + me * bytes, in, bytes);
    Exchange exchange(*router, ranks, {all + me * bytes, bytes}, what);
    try {
      exchange.post(me, all);
      exchange.wait(timeout_s);
    } catch (const std::exception& error) {
      router->abort(failure_of(error));  // before the messages go, which peers may be reading
      throw;
    }
  };
  return bootstrap;
}

}  // namespace lanecast
