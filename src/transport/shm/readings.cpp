// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/readings.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "transport/shm/cma.h"

namespace lanecast::shm {

void Readings::begin(Message& message, std::span<const std::byte> list, ControlKind then) {
  BufferPool::Buffer kept = lists_.take(list.size());
  std::memcpy(kept.data.get(), list.data(), list.size());
  const std::span remote(reinterpret_cast<const Span*>(kept.data.get()), list.size() / sizeof(Span));
  readings_.push_back({.message = &message,
                       .then = then,
                       .list = std::move(kept),
                       .local = SpanCursor(message.memory),
                       .remote = SpanCursor(remote),
                       .timed = ways_.wants_time(message)});
}

std::size_t Readings::read() {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  if (!can_read()) return 0;
  ReadUnderWay& reading = readings_.front();
  const Message& message = *reading.message;
  const std::size_t bytes = std::min(kMostBytes, message.bytes - reading.read_bytes);
  const std::int64_t begin = reading.timed ? clock_ns(bytes) : 0;
  const std::size_t read_bytes = read_remote(sender_.pid, reading.local, reading.remote, bytes);
  reading.sender_ends = read_bytes == 0;
  reading.read_bytes += read_bytes;
  if (reading.timed) reading.copies_ns += clock_ns(bytes) - begin;
  ways_.receives(read_bytes);
  if (reading.is_read() && is_worth_a_choice(message))
    ways_.received(message, ShmWay::read, reading.timed ? std::optional(reading.copies_ns) : std::nullopt);
  return read_bytes;
}

std::optional<Readings::End> Readings::take_ended(ControlWriter& notes) {
  ReadUnderWay& reading = readings_.front();
  if (!reading.is_read() || !notes.has_room()) return {};
  const End end{reading.message, reading.then};
  // A sender that has given up may have changed the memory. The fence: its state is read after its memory.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (sender_.state->load(std::memory_order_relaxed) != OwnerState::open)
    throw TransportError("rank " + std::to_string(end.message->peer) + " gave up while its memory was read");
  notes.put({end.told, end.message->tag});
  lists_.give_back(std::move(reading.list));
  readings_.pop_front();
  return end;
}

}  // namespace lanecast::shm
