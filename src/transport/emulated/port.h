// SPDX-License-Identifier: Apache-2.0
// What a rank and its NIC share: for each peer two queue pairs of works that go out and arrivals that have come in, and
// the memory of GPUs that works may name. All of it lies in nameless memory of the rank; NICs map it.
//
// A work is done in this order: a put from GPU memory into a peer's, a word behind it there, a message into the peer's
// arrivals. Each may be left out. Works of a queue pair are done in order, those of two pairs are not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/shared_pages.h"
#include "transport/transport.h"

namespace lanecast::emulated {

/// GPU memory: a place in the table of a port, and an offset.
struct RegisteredPlace {
  std::uint32_t key = 0;
  std::uint64_t offset = 0;
};

struct Put {
  RegisteredPlace from{}, to{};
  std::uint64_t bytes = 0;
};

/// 32 bits that are written on the peer's GPU once the put's bytes are there.
struct Word {
  RegisteredPlace at{};
  std::uint32_t value = 0;
  bool wanted = false;
};

struct NicWork {
  std::uint64_t posted_ns = 0;
  Put put{};
  Word word{};
  std::uint32_t message_bytes = 0;  // behind this; 0: none
};

struct Arrival {
  std::uint64_t bytes = 0;  // so wide that what lies behind is aligned
};

enum class Queue : std::uint8_t { messages, puts };
inline constexpr std::size_t kQueues = 2;
struct QueueShape {
  std::uint32_t slots, message_bytes;
};
inline constexpr std::array<QueueShape, kQueues> kQueueShapes{{{16, 16 << 10}, {64, 192}}};
inline constexpr std::uint32_t kLongestMessage = kQueueShapes[0].message_bytes;

/// One writer, one reader. Head is NicWork or Arrival; a message lies behind it.
template <class Head>
class Ring {
 public:
  struct Counts {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
  };
  static constexpr std::size_t bytes(QueueShape shape) { return sizeof(Counts) + shape.slots * slot_bytes(shape); }

  Ring() = default;
  Ring(std::byte* memory, QueueShape shape) : memory_(memory), shape_(shape) {}

  /// Of the writer: where to put the next head and message; null while there is no room.
  Head* to_write() const {
    // Acquire: pairs with the reader's release in pop(); it is through with the slot.
    const std::uint64_t written = counts().written.load(std::memory_order_relaxed);
    return written - counts().read.load(std::memory_order_acquire) < shape_.slots ? at(written) : nullptr;
  }
  /// Release: the reader that sees the count sees the slot.
  void push() const {
    counts().written.store(counts().written.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Of the writer: how many the reader is through with, of all that were ever written.
  std::uint64_t popped() const { return counts().read.load(std::memory_order_acquire); }
  bool empty() const { return popped() == counts().written.load(std::memory_order_relaxed); }
  /// Of the reader: the k-th that has not been popped; null while there is none. Acquire: pairs with push().
  Head* to_read(std::uint64_t k = 0) const {
    const std::uint64_t next = counts().read.load(std::memory_order_relaxed) + k;
    return next < counts().written.load(std::memory_order_acquire) ? at(next) : nullptr;
  }
  void pop() const {
    counts().read.store(counts().read.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  static std::byte* message(Head* head) { return reinterpret_cast<std::byte*>(head + 1); }

 private:
  static constexpr std::size_t slot_bytes(QueueShape shape) {
    return (sizeof(Head) + shape.message_bytes + 63) / 64 * 64;
  }
  Counts& counts() const { return *reinterpret_cast<Counts*>(memory_); }
  Head* at(std::uint64_t k) const {
    return reinterpret_cast<Head*>(memory_ + sizeof(Counts) + k % shape_.slots * slot_bytes(shape_));
  }

  std::byte* memory_ = nullptr;
  QueueShape shape_{};
};

/// Memory of a GPU that NICs may reach.
struct Registration {
  std::array<char, 64> handle;
  std::array<char, 32> bus_id;  // of the GPU
  std::uint64_t bytes;
  // Sequentially consistent where a NIC opens it and where the rank withdraws it: either the NIC sees that it is not
  // known any more, or the rank sees one that has it open.
  std::atomic<std::uint32_t> known;   // else nobody may name it; release: all of the above is written
  std::atomic<std::int32_t> openers;  // NICs that have it open; until there are none the rest of this stays

  bool free() const {
    // As said; it pairs as well with a NIC's release once it has closed the memory.
    return known.load(std::memory_order_relaxed) == 0 && openers.load(std::memory_order_seq_cst) == 0;
  }
};
inline constexpr std::uint32_t kMostRegistrations = 256;

struct PortHead {
  std::atomic<std::uint32_t> failed;  // then `why` is written
  std::array<char, 400> why;
  std::array<Registration, kMostRegistrations> memory;
};

/// The memory of a port of a rank among so many.
class PortMemory {
 public:
  static std::size_t bytes(int ranks);

  PortMemory() = default;
  explicit PortMemory(Mapping&& mapping) : mapping_(std::move(mapping)) {}

  PortHead& head() const { return *reinterpret_cast<PortHead*>(mapping_.data()); }
  Ring<NicWork> works(int peer, Queue queue) const;
  Ring<Arrival> arrivals(int peer, Queue queue) const;

 private:
  std::byte* pair(int peer, Queue queue) const;

  Mapping mapping_;
};

/// How a NIC process finds a rank's port.
struct PortAddress {
  int pid = 0, fd = 0;
  FileId file;
  std::uint32_t nic = 0;  // of the network
};

}  // namespace lanecast::emulated
