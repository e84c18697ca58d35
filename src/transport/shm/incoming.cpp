// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/incoming.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "transport/shm/cma.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kReadBytesPerTurn = std::size_t{1} << 20;  // bounds the time of one call of progress()

template <class Coming>
std::optional<std::int64_t> time_of(const Coming& message) {
  return message.timed ? std::optional(message.copies_ns) : std::nullopt;
}

void deliver_whole(const Message& receive, const std::byte* data) {
  if (receive.bytes == 0) return;
  if (receive.consumer)
    receive.consumer->consume(0, data, receive.bytes);
  else
    SpanCursor(receive.memory).scatter(data, receive.bytes);
}

}  // namespace

void Incoming::check(const Message& receive, std::size_t sent_bytes, std::uint32_t stamp) const {
  if (receive.bytes == sent_bytes && receive.stamp == stamp) return;
  raise_mismatch(receive, rank_, std::to_string(sent_bytes), UINT64_MAX, receive.stamp == stamp);
}

void Incoming::post(Message& message, std::vector<Message*>& done) {
  ++pending_;
  if (auto early = early_.pop(message.tag)) {
    check(message, early->bytes, early->stamp);
    if (!is_large(early->bytes)) {
      deliver_whole(message, early->data.data.get());
      early_buffers_.give_back(std::move(early->data));
      finish(&message, done);
      return;
    }
    noticed_.push(message.tag, &message);
  } else {
    posted_.push(message.tag, &message);
  }
  if (is_large(message.bytes)) ask_for(message);
}

Way Incoming::way_for(const Message& message) {
  // A consumer takes what is in the cache; what was read from afar would have to be stored first.
  if (message.consumer || sender_.single_copy == SingleCopy::off) return Way::stream;
  if (sender_.single_copy == SingleCopy::on) return Way::read;
  return is_worth_a_choice(message) ? ways_.choose(message) : Way::stream;
}

void Incoming::ask_for(const Message& message) {
  const ControlKind kind = way_for(message) == Way::read ? ControlKind::read : ControlKind::stream;
  const Note note{kind, message.tag};
  if (!unsent_notes_.empty() || !notes_.put(note)) unsent_notes_.push_back(note);
}

bool Incoming::progress(std::vector<Message*>& done) {
  while (!unsent_notes_.empty() && notes_.put(unsent_notes_.front())) unsent_notes_.pop_front();
  const auto taken = [this] { return packets_.read_bytes() + pieces_bytes_; };
  const std::uint64_t before = taken();
  while (taken() - before < kBytesPerTurn) {
    const PacketHeader* next = packets_.peek();
    if (!next) break;
    const std::size_t remote_bytes = remote_.read_bytes;
    if (!take(*next, done)) return taken() > before || remote_.read_bytes != remote_bytes;
  }
  return taken() > before;
}

bool Incoming::take(const PacketHeader& packet, std::vector<Message*>& done) {
  // Relaxed: peek() has acquired the packet.
  switch (packet.kind.load(std::memory_order_relaxed)) {
    case PacketKind::eager:
    case PacketKind::notice:
      take_first(packet, done);
      break;
    case PacketKind::fragment:
      take_fragment(packet, done);
      break;
    case PacketKind::piece:
      take_piece(packet, done);
      break;
    case PacketKind::remote:
      if (!take_remote(packet, done)) return false;
      break;
    default:
      throw InternalError("a shared-memory ring holds a packet of no known kind");
  }
  packets_.pop();
  return true;
}

void Incoming::take_first(const PacketHeader& packet, std::vector<Message*>& done) {
  const PacketFields& fields = packet.fields;
  const std::byte* data = PacketReader::payload(packet);
  const auto receive = posted_.pop(fields.tag);
  if (!receive) {
    Early early{fields.message_bytes, {}, fields.stamp};
    if (fields.payload_bytes > 0) {
      early.data = early_buffers_.take(fields.payload_bytes);
      std::memcpy(early.data.data.get(), data, fields.payload_bytes);
    }
    early_.push(fields.tag, std::move(early));
    return;
  }
  check(**receive, fields.message_bytes, fields.stamp);
  if (is_large(fields.message_bytes)) {
    noticed_.push(fields.tag, *receive);
  } else {
    deliver_whole(**receive, data);
    finish(*receive, done);
  }
}

Message* Incoming::match(const PacketFields& fields) {
  const auto receive = (fields.noticed ? noticed_ : posted_).pop(fields.tag);
  if (!receive) throw InternalError("a large message arrives that nobody has asked for");
  check(**receive, fields.message_bytes, fields.stamp);
  return *receive;
}

void Incoming::take_fragment(const PacketHeader& packet, std::vector<Message*>& done) {
  begin_stream(packet, 1);
  take_data(PacketReader::payload(packet), packet.fields.payload_bytes, done);
}

void Incoming::take_piece(const PacketHeader& packet, std::vector<Message*>& done) {
  PieceNote note;
  std::memcpy(&note, PacketReader::payload(packet), sizeof note);
  // What goes to several peers is part of a collective, mostly, and the caches have to hold what all ranks receive.
  begin_stream(packet, note.messages * layout_.ranks);
  stream_.shared = true;
  take_data(sender_.outbox.at(note.place), note.bytes, done);
  pieces_bytes_ += note.bytes;
  // Release: pairs with the acquire in Outbox::free_place(); our loads of the piece come before its place is reused.
  sender_.outbox.controls[note.place].taken.fetch_add(1, std::memory_order_release);
}

void Incoming::begin_stream(const PacketHeader& packet, std::size_t alike) {
  if (stream_.message) return;
  Message* const receive = match(packet.fields);
  stream_ = {receive, SpanCursor(receive->memory), 0, stores_for(alike * receive->bytes)};
  stream_.timed = !receive->consumer && ways_.wants_time(*receive);
}

void Incoming::take_data(const std::byte* data, std::size_t bytes, std::vector<Message*>& done) {
  const std::int64_t begin = stream_.timed ? clock_ns(bytes) : 0;
  if (stream_.message->consumer)
    stream_.message->consumer->consume(stream_.received_bytes, data, bytes);
  else
    stream_.memory.scatter(data, bytes, stream_.stores);
  if (stream_.timed) stream_.copies_ns += clock_ns(bytes) - begin;
  stream_.received_bytes += bytes;
  ways_.receives(bytes);
  if (stream_.received_bytes < stream_.message->bytes) return;
  wait_for_stores(stream_.stores);  // the caller may hand the buffer to another core
  if (is_worth_a_choice(*stream_.message) && !stream_.message->consumer && !stream_.shared)
    ways_.received(*stream_.message, Way::stream, time_of(stream_));
  finish(stream_.message, done);
  stream_.message = nullptr;
}

bool Incoming::take_remote(const PacketHeader& packet, std::vector<Message*>& done) {
  if (!remote_.message) {
    Message* const receive = match(packet.fields);
    const auto* spans = reinterpret_cast<const Span*>(PacketReader::payload(packet));
    const std::size_t count = packet.fields.payload_bytes / sizeof(Span);
    remote_ = {receive, SpanCursor(receive->memory), SpanCursor({spans, count}), 0, ways_.wants_time(*receive)};
  }
  const std::size_t total = remote_.message->bytes;
  if (remote_.sender_ends) return false;
  if (remote_.read_bytes < total) {
    const std::size_t bytes = std::min(kReadBytesPerTurn, total - remote_.read_bytes);
    const std::int64_t begin = remote_.timed ? clock_ns(bytes) : 0;
    const std::size_t read_bytes = read_remote(sender_.pid, remote_.local, remote_.remote, bytes);
    remote_.sender_ends = read_bytes == 0;
    remote_.read_bytes += read_bytes;
    if (remote_.timed) remote_.copies_ns += clock_ns(bytes) - begin;
    ways_.receives(read_bytes);
    if (is_read() && is_worth_a_choice(*remote_.message)) ways_.received(*remote_.message, Way::read, time_of(remote_));
  }
  if (!is_read() || !notes_.has_room()) return false;
  // A sender that has given up may have changed the memory. The fence: its state is read after its memory.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (sender_.state->load(std::memory_order_relaxed) != OwnerState::open)
    throw TransportError("rank " + std::to_string(remote_.message->peer) + " gave up while its memory was read");
  notes_.put({ControlKind::taken});
  finish(remote_.message, done);
  remote_ = {};
  return true;
}

void Incoming::finish(Message* message, std::vector<Message*>& done) {
  --pending_;
  done.push_back(message);
}

}  // namespace lanecast::shm
