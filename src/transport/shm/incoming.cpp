// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/incoming.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace lanecast::shm {

void Incoming::check(const Message& receive, std::size_t sent_bytes, std::uint32_t stamp) const {
  if (receive.bytes == sent_bytes && receive.stamp == stamp) return;
  raise_mismatch(receive, rank_, std::to_string(sent_bytes), UINT64_MAX, receive.stamp == stamp);
}

void Incoming::raise_other_sort(const Message& receive) const {
  raise_mismatch(receive, rank_, std::to_string(receive.bytes), UINT64_MAX, /*same_stamp=*/false);
}

void Incoming::post(Message& message, std::vector<Message*>& done) {
  ++pending_;
  const bool large = layout_.is_large(message), medium = layout_.is_medium(message);
  Receive receive{&message, large || medium ? way_for(message) : ShmWay::undecided, /*asked=*/false};
  if (medium) {
    if (std::exchange(medium_stamp_, message.stamp) != message.stamp) medium_pending_ = 0;
    ++medium_pending_;
  }
  if (auto early = early_.pop(message.tag)) {
    check(message, early->bytes, early->stamp);
    const std::byte* data = early->data.data.get();
    if (large || medium) unasked_.push(message.tag, {});
    early->is_notice ? meet(receive, {data, early->data_bytes}) : deliver(message, data, done);
    return early_buffers_.give_back(std::move(early->data));
  }
  if (large || medium) {
    // Its notice will tell what there is to read, or it comes whole.
    const bool waits =
        medium || (receive.way == ShmWay::read && layout_.notice_tells(message)) || unasked_.front(message.tag);
    waits ? unasked_.push(message.tag, {}) : ask_for(receive);
    receive.asked = !waits;
  }
  posted_.push(message.tag, receive);
}

void Incoming::deliver(Message& receive, const std::byte* data, std::vector<Message*>& done) {
  if (layout_.is_large(receive)) raise_other_sort(receive);
  const bool medium = layout_.is_medium(receive), timed = medium && ways_.wants_time(receive);
  const std::int64_t begun_ns = medium ? wall_clock_ns() : 0, begin = timed ? clock_ns(receive.bytes) : 0;
  if (receive.consumer && receive.bytes > 0)
    receive.consumer->consume(0, data, receive.bytes);
  else
    SpanCursor(receive.memory).scatter(data, receive.bytes);
  if (medium) {
    Took took;
    if (timed) took.copies_ns = clock_ns(receive.bytes) - begin;
    took.all = ways_.ended(receive, receive.bytes, begun_ns, wall_clock_ns());
    ways_.receives(receive, receive.bytes);
    ways_.streamed(receive, ways_.was_to_be_read(receive), took);
    unasked_.pop(receive.tag);
  }
  finish(&receive, done);
}

ShmWay Incoming::way_for(const Message& message) {
  // A consumer takes what is in the cache; what was read from afar would have to be stored first.
  if (message.consumer || sender_.single_copy == SingleCopy::off) return ShmWay::stream;
  if (sender_.single_copy == SingleCopy::on || layout_.is_medium(message)) return ShmWay::read;
  return is_worth_a_choice(message) ? ways_.choose(message) : ShmWay::stream;
}

void Incoming::ask_for(const Receive& receive) {
  const ControlKind kind = receive.way == ShmWay::read ? ControlKind::read : ControlKind::stream;
  const ControlNote note{kind, receive.message->tag};
  if (!unsent_notes_.empty() || !notes_.put(note)) unsent_notes_.push_back(note);
}

void Incoming::meet(const Receive& receive, std::span<const std::byte> list) {
  Message& message = *receive.message;
  if (!layout_.is_large(message) && !layout_.is_medium(message)) raise_other_sort(message);
  if (!receive.asked && receive.way == ShmWay::read && !list.empty())
    return readings_.begin(message, list, ControlKind::fetched);
  noticed_.push(message.tag, receive);
  if (receive.asked) return;
  ask_for(receive);
  unasked_.pop(message.tag);
}

bool Incoming::progress(std::vector<Message*>& done, bool shares) {
  while (!unsent_notes_.empty() && notes_.put(unsent_notes_.front())) unsent_notes_.pop_front();
  const auto taken = [this] { return packets_.read_bytes() + pieces_bytes_; };
  const std::uint64_t before = taken();
  while (taken() - before < kBytesPerTurn) {
    const PacketHeader* next = packets_.peek();
    if (!next) break;
    take(*next, done);
  }
  return read_on(done, shares) || taken() > before;
}

void Incoming::take(const PacketHeader& packet, std::vector<Message*>& done) {
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
      readings_.begin(*match(packet.fields).message, PacketReader::payload(packet), ControlKind::taken);
      break;
    default:
      throw InternalError("a shared-memory ring holds a packet of no known kind");
  }
  packets_.pop();
}

void Incoming::take_first(const PacketHeader& packet, std::vector<Message*>& done) {
  const PacketFields& fields = packet.fields;
  const std::span data = PacketReader::payload(packet);
  // Relaxed, as in take().
  const bool is_notice = packet.kind.load(std::memory_order_relaxed) == PacketKind::notice;
  const auto receive = posted_.pop(fields.tag);
  if (!receive) {
    EarlyMessage early{fields.message_bytes, {}, data.size(), fields.stamp, is_notice};
    if (!data.empty()) {
      early.data = early_buffers_.take(data.size());
      std::memcpy(early.data.data.get(), data.data(), data.size());
    }
    early_.push(fields.tag, std::move(early));
    return;
  }
  check(*receive->message, fields.message_bytes, fields.stamp);
  is_notice ? meet(*receive, data) : deliver(*receive->message, data.data(), done);
}

Incoming::Receive Incoming::match(const PacketFields& fields) {
  const auto receive = fields.noticed ? noticed_.pop(fields.tag) : posted_.pop(fields.tag);
  if (!receive) throw InternalError("a large message arrives that nobody has asked for");
  check(*receive->message, fields.message_bytes, fields.stamp);
  return *receive;
}

void Incoming::take_fragment(const PacketHeader& packet, std::vector<Message*>& done) {
  begin_stream(packet, 1);
  const std::span data = PacketReader::payload(packet);
  take_data(data.data(), data.size(), done);
}

void Incoming::take_piece(const PacketHeader& packet, std::vector<Message*>& done) {
  PieceNote note;
  std::memcpy(&note, PacketReader::payload(packet).data(), sizeof note);
  // What goes to several peers is part of a collective, mostly, and the caches have to hold what all ranks receive.
  begin_stream(packet, note.messages > 1 ? note.messages * layout_.ranks : 1);
  stream_.shared |= note.messages > 1;
  take_data(sender_.outbox.at(note.place), note.bytes, done);
  pieces_bytes_ += note.bytes;
  // Release: pairs with the acquire in Outbox::free_place(); our loads of the piece come before its place is reused.
  sender_.outbox.controls[note.place].taken.fetch_add(1, std::memory_order_release);
}

void Incoming::begin_stream(const PacketHeader& packet, std::size_t alike) {
  if (stream_.message) return;
  const Receive receive = match(packet.fields);
  Message& message = *receive.message;
  stream_ = {&message, SpanCursor(message.memory), 0, stores_for(alike * message.bytes)};
  stream_.declined = receive.way == ShmWay::read;
  stream_.chosen = !message.consumer && is_worth_a_choice(message);
  stream_.timed = stream_.chosen && ways_.wants_time(message);
  if (stream_.chosen) stream_.begun_ns = wall_clock_ns();
}

void Incoming::take_data(const std::byte* data, std::size_t bytes, std::vector<Message*>& done) {
  const std::int64_t begin = stream_.timed ? clock_ns(bytes) : 0;
  if (stream_.message->consumer)
    stream_.message->consumer->consume(stream_.received_bytes, data, bytes);
  else
    stream_.memory.scatter(data, bytes, stream_.stores);
  if (stream_.timed) stream_.copies_ns += clock_ns(bytes) - begin;
  if (stream_.received_bytes == 0) stream_.first_bytes = bytes;
  stream_.received_bytes += bytes;
  ways_.receives(*stream_.message, bytes);
  if (stream_.received_bytes < stream_.message->bytes) return;
  wait_for_stores(stream_.stores);  // the caller may hand the buffer to another core
  if (stream_.chosen) {
    const Message& message = *stream_.message;
    Took took{ways_.ended(message, stream_.first_bytes, stream_.begun_ns, wall_clock_ns()), {}};
    if (stream_.timed) took.copies_ns = stream_.copies_ns;
    stream_.shared ? ways_.shared(message) : ways_.streamed(message, stream_.declined, took);
  }
  finish(stream_.message, done);
  stream_.message = nullptr;
}

bool Incoming::read_on(std::vector<Message*>& done, bool shares) {
  if (readings_.empty()) return false;
  const bool came_further = readings_.read(notes_, shares);
  const auto ended = readings_.take_ended(notes_);
  if (!ended) return came_further;
  if (ended->told == ControlKind::fetched) unasked_.pop(ended->message->tag);
  finish(ended->message, done);
  return true;
}

void Incoming::finish(Message* message, std::vector<Message*>& done) {
  --pending_;
  if (medium_pending_ > 0 && message->stamp == medium_stamp_ && layout_.is_medium(*message)) --medium_pending_;
  done.push_back(message);
}

}  // namespace lanecast::shm
