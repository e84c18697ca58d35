// SPDX-License-Identifier: Apache-2.0
#include "runtime/exchange.h"

#include <chrono>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/patience.h"

namespace lanecast {
namespace {

using Clock = std::chrono::steady_clock;

/// One all-gather: everyone sends to everyone.
class Exchange {
 public:
  Exchange(Router& router, const std::vector<int>& ranks, std::span<std::byte> mine)
      : router_(router), source_{mine.data(), mine.size()}, ranks_(ranks) {}

  void post(int me, std::byte* all) {
    const std::size_t bytes = source_.bytes;
    targets_.resize(ranks_.size());
    messages_.reserve(2 * ranks_.size());  // they stay where they are posted
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      if (static_cast<int>(k) == me || bytes == 0) continue;
      targets_[k] = {all + k * bytes, bytes};
      messages_.push_back({ranks_[k], 0, bytes, {&targets_[k], 1}, nullptr});
      router_.to(ranks_[k]).post_recv(messages_.back());
      messages_.push_back({ranks_[k], 0, bytes, {&source_, 1}, nullptr});
      router_.to(ranks_[k]).post_send(messages_.back());
    }
    open_ = messages_.size();
  }

  void wait(double timeout_s) {
    Patience patience(true);
    const auto begin = Clock::now();
    auto last_look = begin;
    std::vector<Message*> done;
    while (open_ > 0) {
      for (std::size_t t = 0; t < router_.count(); ++t) router_[t].progress(done);
      for (Message* message : done) message->peer = -1;
      open_ -= done.size();
      if (!done.empty()) patience.reset();
      if (!done.empty() || !patience.pause() || Clock::now() - last_look < kLookEvery) {
        done.clear();
        continue;
      }
      last_look = Clock::now();
      look_around(std::chrono::duration<double>(last_look - begin).count(), timeout_s);
    }
  }

 private:
  void look_around(double waited_s, double timeout_s) {
    std::string missing;
    for (const Message& message : messages_) {
      if (message.peer < 0) continue;
      const std::string peer = std::to_string(message.peer);
      if (const Loss loss = router_.to(message.peer).lost(message.peer))
        raise({loss.cause.kind, "split: lost rank " + peer + " (" + loss.str() + ")"});
      if (!missing.ends_with(" " + peer)) missing.append(missing.empty() ? " " : ", ").append(peer);
    }
    if (waited_s >= timeout_s)
      throw TimeoutError("split: waited " + std::to_string(waited_s) + " s for rank" + missing +
                         "; is that rank alive, and has it called split, too?");
  }

  Router& router_;
  Span source_;
  const std::vector<int>& ranks_;
  std::vector<Span> targets_;
  std::vector<Message> messages_;  // their peer becomes -1 when they are done
  std::size_t open_ = 0;
};

}  // namespace

Bootstrap bootstrap_over(std::shared_ptr<Router> router, std::vector<int> ranks, int me, double timeout_s) {
  Bootstrap bootstrap{.rank = me, .size = static_cast<int>(ranks.size()), .all_gather = {}};
  bootstrap.all_gather = [router = std::move(router), ranks = std::move(ranks), me, timeout_s](
                             const void* in, void* out, std::size_t bytes) {
    auto* all = static_cast<std::byte*>(out);
    std::memcpy(all + me * bytes, in, bytes);
    Exchange exchange(*router, ranks, {all + me * bytes, bytes});
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
