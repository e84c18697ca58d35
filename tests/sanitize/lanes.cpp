// SPDX-License-Identifier: Apache-2.0
// Both ends of two shared-memory lanes as threads on one mapping, so that a thread sanitizer sees every access of both:
// between processes, or where a process maps a lane twice, it sees none of the races there may be.
//
// Usage: lanes SECONDS. Random messages in rounds, some of them from one memory, posted in any order, streamed, read or
// consumed; every byte checked. Half the time with an outbox, half without, where notices tell what there is to read.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "transport/shm/incoming.h"
#include "transport/shm/outgoing.h"

namespace lanecast::shm {
namespace {

constexpr std::size_t kRingBytes = std::size_t{16} << 10;  // the smallest: it wraps every few messages
constexpr std::size_t kPlaces = 5;                         // of an outbox: they are used again and again
constexpr int kMessages = 100;  // of a round and direction; more than there are control slots
constexpr std::uint64_t kTags = 40;

ShmLayout layout_with(std::size_t places) {
  ShmLayout layout = layout_for(2, {.ring_bytes = kRingBytes, .eager_bytes = 2048});
  layout.outbox_places = places;
  return layout;
}

struct Page {
  alignas(4096) std::byte bytes[4096]{};
};

struct LaneMemory {
  alignas(4096) std::byte control[kControlBytes]{};
  alignas(4096) std::byte ring[kRingBytes]{};
  // The sender's; as long as the layout wants it, which is no constant.
  const std::unique_ptr<Page[]> outbox_pages =
      std::make_unique<Page[]>(outbox_bytes(layout_with(kPlaces)) / sizeof(Page));
  std::byte* outbox() const { return outbox_pages[0].bytes; }
  ShmLane lane() { return {reinterpret_cast<LaneControl*>(control), ring, kRingBytes}; }
};

struct Item {
  std::uint64_t tag;
  std::size_t bytes;
  int first;  // which of the items that are sent from this memory comes first
  std::optional<Kind> kind;
};

/// What crosses a lane in a round; both ends know it.
std::vector<Item> items_of(unsigned round, int sender) {
  std::mt19937 random(2 * round + static_cast<unsigned>(sender));
  std::vector<Item> items(kMessages);
  for (int k = 0; k < kMessages; ++k) {
    const std::size_t most = std::size_t{1} << random() % 18;
    constexpr std::optional<Kind> kKinds[] = {{}, Kind::all_gather, Kind::gather, Kind::reduce, Kind::scatter};
    items[k] = {random() % kTags, random() % most, k, kKinds[random() % std::size(kKinds)]};
    if (k > 0 && random() % 3 == 0) items[k] = {items[k].tag, items[k - 1].bytes, items[k - 1].first, items[k].kind};
  }
  return items;
}

/// An order of posting that keeps the order within each tag.
std::vector<int> order_of(const std::vector<Item>& items, std::mt19937& random) {
  std::vector<int> places(items.size());
  for (std::size_t k = 0; k < places.size(); ++k) places[k] = static_cast<int>(k);
  std::shuffle(places.begin(), places.end(), random);
  for (std::uint64_t tag = 0; tag < kTags; ++tag) {
    std::vector<std::size_t> at;
    for (std::size_t k = 0; k < places.size(); ++k)
      if (items[places[k]].tag == tag) at.push_back(k);
    std::vector<int> of_tag;
    for (std::size_t k : at) of_tag.push_back(places[k]);
    std::ranges::sort(of_tag);
    for (std::size_t k = 0; k < at.size(); ++k) places[at[k]] = of_tag[k];
  }
  return places;
}

std::byte value_at(unsigned round, int sender, int item, std::size_t offset) {
  return static_cast<std::byte>((offset * 2654435761u >> 7) + static_cast<std::size_t>(item) * 31 + round * 7 +
                                static_cast<std::size_t>(sender) * 101);
}

/// A message with its memory, in two spans; a receive may be a consumer instead.
struct Held : Consumer {
  Message message;
  std::vector<std::byte> memory;
  Span spans[2];
  void consume(std::size_t offset, const std::byte* data, std::size_t bytes) override {
    std::copy_n(data, bytes, memory.data() + offset);
  }
  void receive(const Item& item, std::size_t cut, bool consumes) {
    memory.assign(item.bytes, std::byte{0xee});
    hold(item, memory.data(), cut);
    if (consumes) message.consumer = this;
  }
  void hold(const Item& item, std::byte* data, std::size_t cut) {
    spans[0] = {data, cut};
    spans[1] = {data + cut, item.bytes - cut};
    message = {1, item.tag, item.bytes, spans, nullptr, 0, item.kind};
  }
};

class End {
 public:
  End(int me, LaneMemory& out, LaneMemory& in, const ShmLayout& layout)
      : me_(me),
        outbox_(outbox_at(out.outbox(), layout)),
        outgoing_(out.lane(), process_.id(), SingleCopy::automatic, layout, ways_, outbox_, HUGE_VAL),
        incoming_(me, in.lane(), layout,
                  {process_.id(), &process_, &peer_state_, me == 1 ? SingleCopy::on : SingleCopy::automatic,
                   outbox_at(in.outbox(), layout)},
                  ways_) {}

  bool round(unsigned number) {
    std::mt19937 random(number * 7919 + static_cast<unsigned>(me_));
    const auto sent = items_of(number, me_), due = items_of(number, 1 - me_);
    const auto send_order = order_of(sent, random), receive_order = order_of(due, random);
    std::vector<Held> sends(kMessages), receives(kMessages);
    std::size_t open = 0;
    std::vector<Message*> done;
    const auto progress = [&] {
      incoming_.progress(done, !outgoing_.has_pending());
      outgoing_.progress(done);
      open -= done.size();
      if (done.empty()) std::this_thread::yield();
      done.clear();
    };
    for (int s = 0; s < kMessages; ++s) {
      std::vector<std::byte>& memory = sends[s].memory;
      if (sent[s].first == s) memory.resize(sent[s].bytes);
      for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = value_at(number, me_, s, i);
    }
    for (int k = 0; k < kMessages; ++k) {
      const int s = send_order[k], r = receive_order[k];
      sends[s].hold(sent[s], sends[sent[s].first].memory.data(), sent[s].bytes / 3);
      receives[r].receive(due[r], random() % (due[r].bytes + 1), random() % 4 == 0);
      open += 2;
      outgoing_.post(sends[s].message, incoming_.awaits_medium(0), done);
      incoming_.post(receives[r].message, done);
      open -= done.size();
      done.clear();
      if (random() % 3 == 0) progress();
    }
    while (open > 0) progress();
    for (int r = 0; r < kMessages; ++r)
      for (std::size_t i = 0; i < due[r].bytes; ++i)
        if (receives[r].memory[i] != value_at(number, 1 - me_, due[r].first, i)) {
          std::fprintf(stderr, "round %u: message %d to %d is wrong at byte %zu\n", number, r, me_, i);
          return false;
        }
    return true;
  }

 private:
  const int me_;
  const Process process_{getpid()};
  const std::atomic<OwnerState> peer_state_ = OwnerState::open;
  WayBoard board_{};
  Ways ways_{board_, nullptr};
  Outbox outbox_;
  Outgoing outgoing_;
  Incoming incoming_;
};

bool run(double seconds, std::size_t places) {
  const auto lanes = std::make_unique<LaneMemory[]>(2);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<unsigned> rounds = 0;  // the first end grants them, so that both make equally many
  std::atomic<bool> over = false, wrong = false;
  const auto end_main = [&](int me) {
    End mine(me, lanes[me], lanes[1 - me], layout_with(places));
    for (unsigned number = 1;; ++number) {
      if (me == 0) {
        if (std::chrono::steady_clock::now() > end || wrong)
          over.store(true, std::memory_order_relaxed);
        else
          rounds.store(number, std::memory_order_relaxed);
      }
      // Relaxed: they order nothing between the ends, or the sanitizer would miss what the lanes fail to order.
      while (rounds.load(std::memory_order_relaxed) < number && !over.load(std::memory_order_relaxed))
        std::this_thread::yield();
      if (rounds.load(std::memory_order_relaxed) < number) return;
      if (!mine.round(number)) wrong = true;
    }
  };
  std::thread other(end_main, 1);
  end_main(0);
  other.join();
  std::printf("%u rounds of %d messages in each direction\n", rounds.load(), kMessages);
  return !wrong;
}

}  // namespace
}  // namespace lanecast::shm

int main(int argc, char** argv) {
  using namespace lanecast::shm;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  return run(seconds / 2, kPlaces) && run(seconds / 2, 0) ? 0 : 1;
}
