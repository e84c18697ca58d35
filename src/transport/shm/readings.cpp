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
  ReadUnderWay reading;
  reading.message = &message;
  reading.then = then;
  reading.list = lists_.take(list.size());
  reading.spans_bytes = list.size();
  reading.pieces = CopyPieces(message.bytes);
  reading.local = SpanCursor(message.memory);
  reading.timed = ways_.wants_time(message);
  std::memcpy(reading.list.data.get(), list.data(), list.size());
  reading.remote = SpanCursor(reading.spans());
  readings_.push_back(std::move(reading));
}

bool Readings::is_whole(const ReadUnderWay& reading) const {
  return reading.number != 0 && reading.read + claims_.written() == reading.pieces.count;
}

bool Readings::can_go_on(const ControlWriter& notes) {
  if (empty() || readings_.front().sender_ends) return false;
  const ReadUnderWay& reading = readings_.front();
  if (is_whole(reading)) return notes.has_room();
  return reading.number == 0 || claims_.is_left(reading.number, reading.pieces) || claims_.refused();
}

void Readings::offer(ReadUnderWay& reading, ControlWriter& notes) {
  const Message& message = *reading.message;
  if (reading.pieces.count < 2 || message.memory.size() > 1) return;
  const CopyOffer offer{reading.then, reading.number, message.memory.front().data};
  reading.offered = notes.put({ControlKind::offered, message.tag, offer});
}

std::optional<PieceRun> Readings::next_pieces(ReadUnderWay& reading) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // in one call, where nobody else wants a piece
  const std::size_t most = reading.offered ? 1 : std::max<std::size_t>(kMostBytes / reading.pieces.piece_bytes, 1);
  if (const auto run = claims_.claim(reading.number, reading.pieces, static_cast<std::uint32_t>(most))) {
    reading.claimed += run->count;
    return run;
  }
  const auto refused = claims_.refused();
  if (!refused || is_whole(reading)) return {};
  // It lies behind: both lists from their beginnings.
  reading.local = SpanCursor(reading.message->memory);
  reading.remote = SpanCursor(reading.spans());
  reading.place = 0;
  return PieceRun{*refused, 1};
}

bool Readings::read_pieces(ReadUnderWay& reading, PieceRun run) {
  const std::size_t begin = reading.pieces.begin(run), end = reading.pieces.end(run);
  reading.local.skip(begin - reading.place);
  reading.remote.skip(begin - reading.place);
  for (reading.place = begin; reading.place < end && !reading.sender_ends;) {
    const std::size_t bytes = read_remote(sender_.pid, reading.local, reading.remote, end - reading.place);
    reading.sender_ends = bytes == 0;
    reading.place += bytes;
  }
  if (reading.sender_ends) return false;
  reading.read_bytes += end - begin;
  reading.read += run.count;
  return true;
}

bool Readings::read(ControlWriter& notes, bool shares) {
  if (!can_go_on(notes)) return false;
  ReadUnderWay& reading = readings_.front();
  if (reading.number == 0) {
    reading.number = claims_.begin();
    reading.begun_ns = wall_clock_ns();
  }
  if (shares && !reading.offered) offer(reading, notes);
  const auto run = next_pieces(reading);
  if (!run) return false;
  const std::size_t bytes = reading.pieces.end(*run) - reading.pieces.begin(*run);
  const std::int64_t begin = reading.timed ? clock_ns(bytes) : 0;
  const bool is_here = read_pieces(reading, *run);
  if (reading.timed) reading.copies_ns += clock_ns(bytes) - begin;
  return is_here;
}

std::optional<Readings::End> Readings::take_ended(ControlWriter& notes) {
  ReadUnderWay& reading = readings_.front();
  if (!is_whole(reading) || !notes.has_room()) return {};
  const Message& message = *reading.message;
  // A sender that has given up may have changed the memory. The fence: its state is read after its memory.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (sender_.state->load(std::memory_order_relaxed) != OwnerState::open)
    throw TransportError("rank " + std::to_string(message.peer) + " gave up while its memory was read");
  ways_.receives(message, message.bytes);
  if (is_worth_a_choice(message)) {
    Took took{ways_.ended(message, 0, reading.begun_ns, wall_clock_ns()), {}};
    if (reading.timed) took.copies_ns = reading.copies_ns;
    ways_.read(message, reading.read_bytes, took);
  }
  const End end{reading.message, reading.then};
  notes.put({end.told, message.tag});
  lists_.give_back(std::move(reading.list));
  readings_.pop_front();
  return end;
}

void Readings::withdraw() {
  if (empty() || readings_.front().number == 0) return;
  ReadUnderWay& reading = readings_.front();
  reading.lent = std::min(claims_.withdraw(), reading.pieces.count) - reading.claimed;
  reading.number = 0;
  reading.sender_ends = true;
}

bool Readings::is_being_written() const {
  // A sender that has left is not in the middle of a piece.
  return !empty() && claims_.written() < readings_.front().lent && !claims_.refused() &&
         sender_.state->load(std::memory_order_acquire) == OwnerState::open && !sender_.process->has_ended();
}

}  // namespace lanecast::shm
