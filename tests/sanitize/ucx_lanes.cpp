// SPDX-License-Identifier: Apache-2.0
// Ranks as threads that exchange messages over UCX, long ones by lanes: a thread sanitizer sees the threads of the
// lanes beside those of the ranks.
//
// Usage: ucx_lanes SECONDS. Random messages in rounds, in lists of spans, posted in any order; every byte checked. Then
// a rank gives up in the middle of long ones, and the others when they hear of it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "transport/loopback/world.h"
#include "transport/ucx/transport.h"

namespace lanecast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3, kLanes = 2;
constexpr int kMessages = 8;  // of a round, between each two and each way
constexpr std::size_t kMostBytes = std::size_t{1} << 21;
constexpr std::size_t kLong = std::size_t{8} << 20;
constexpr auto kMost = std::chrono::seconds(60);  // a round may take: a sanitizer is slow

std::byte value_at(unsigned seed, std::size_t offset) { return static_cast<std::byte>(seed * 31 + (offset >> 3)); }

struct Held {
  Message message;
  std::vector<std::byte> memory;
  Span spans[2];
  unsigned seed = 0;
  bool receive = false;

  void hold(int peer, std::uint64_t tag, std::size_t bytes) {
    memory.resize(bytes);
    spans[0] = {memory.data(), bytes / 3};
    spans[1] = {memory.data() + bytes / 3, bytes - bytes / 3};
    message = {peer, tag, bytes, spans};
  }
};

class Rank {
 public:
  explicit Rank(const Bootstrap& bootstrap) : me_(bootstrap.rank), transport_(bootstrap, kLanes) {
    std::vector<int> peers;
    for (int peer = 0; peer < kRanks; ++peer)
      if (peer != me_) peers.push_back(peer);
    transport_.witness().carries(peers);
  }

  /// Whether all arrived, in time and as it was sent.
  bool round(unsigned number) {
    std::deque<Held> messages;  // they stay where they are
    for (int peer = 0; peer < kRanks; ++peer)
      for (int k = 0; peer != me_ && k < kMessages; ++k)
        for (const bool receive : {false, true}) add(messages, number, peer, k, receive);
    std::vector<Held*> order;
    for (Held& held : messages) order.push_back(&held);
    std::ranges::shuffle(order, std::mt19937(number * 7 + static_cast<unsigned>(me_)));
    for (Held* held : order) post(*held);
    const auto end = Clock::now() + kMost;
    for (std::size_t open = messages.size(); open > 0; open -= done_.size()) {
      if (Clock::now() > end) return false;
      done_.clear();
      if (!transport_.progress(done_)) std::this_thread::yield();
    }
    return std::ranges::all_of(messages, [](const Held& held) {
      for (std::size_t i = 0; held.receive && i < held.memory.size(); ++i)
        if (held.memory[i] != value_at(held.seed, i)) return false;
      return true;
    });
  }

  /// Whether all ranks heard of it.
  bool give_up() {
    std::deque<Held> messages;
    const int next = (me_ + 1) % kRanks, previous = (me_ + kRanks - 1) % kRanks;
    for (int k = 0; k < 4; ++k)
      for (const bool receive : {false, true}) {
        Held& held = messages.emplace_back();
        held.receive = receive;
        held.hold(receive ? previous : next, k, kLong);
        post(held);
      }
    bool heard = me_ == 0;
    for (int turn = 0; turn < 20; ++turn) transport_.progress(done_);
    const auto end = Clock::now() + kMost;
    try {
      while (!heard && !(heard = transport_.witness().lost(next) || transport_.witness().lost(previous)) &&
             Clock::now() < end)
        transport_.progress(done_);
    } catch (const TransportError&) {
      heard = true;
    }
    transport_.abort({FailureKind::user, "enough"});
    return heard;
  }

 private:
  void add(std::deque<Held>& messages, unsigned number, int peer, int k, bool receive) {
    const int sender = receive ? peer : me_, receiver = receive ? me_ : peer;
    Held& held = messages.emplace_back();
    held.receive = receive;
    held.seed =
        ((number * kRanks + static_cast<unsigned>(sender)) * kRanks + static_cast<unsigned>(receiver)) * kMessages +
        static_cast<unsigned>(k);
    held.hold(peer, k, std::mt19937(held.seed)() % kMostBytes);
    for (std::size_t i = 0; !receive && i < held.memory.size(); ++i) held.memory[i] = value_at(held.seed, i);
  }
  void post(Held& held) { held.receive ? transport_.post_recv(held.message) : transport_.post_send(held.message); }
  int me_;
  UcxTransport transport_;
  std::vector<Message*> done_;
};

int run(double seconds) {
  const auto world = std::make_shared<LoopbackWorld>(kRanks);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<bool> wrong = false;
  unsigned rounds = 0;  // of rank 0
  const auto rank_main = [&](int me) {
    const Bootstrap bootstrap = world->bootstrap(me);
    Rank rank(bootstrap);
    for (unsigned number = 1;; ++number) {
      const bool is_over = wrong || Clock::now() > end;
      bool over[kRanks];
      bootstrap.all_gather(&is_over, over, sizeof is_over);
      if (over[0]) break;
      if (!rank.round(number)) wrong = true;
      if (me == 0) rounds = number;
    }
    if (!rank.give_up()) wrong = true;
  };
  std::vector<std::thread> others;
  for (int me = 1; me < kRanks; ++me) others.emplace_back(rank_main, me);
  rank_main(0);
  for (std::thread& other : others) other.join();
  std::printf("%u rounds of %d messages between each two of %d ranks\n", rounds, 2 * kMessages, kRanks);
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace lanecast

int main(int argc, char** argv) { return lanecast::run(argc > 1 ? std::atof(argv[1]) : 5); }
