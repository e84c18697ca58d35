// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/outgoing.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kPiecesAtLeast = 4;  // of a long message: receivers copy one while the sender copies the next

// How long one receiver waits for others: where ranks share a core, each may be away for three slices of 3 ms.
constexpr std::int64_t kPatienceNs = 10'000'000;

PacketFields fields(const Message& message, std::size_t payload_bytes, bool noticed) {
  return {message.tag, message.bytes, static_cast<std::uint32_t>(payload_bytes), noticed ? 1u : 0u, message.stamp};
}

}  // namespace

void Outgoing::post(Message& message, bool comes_back, std::vector<Message*>& done) {
  ++pending_;
  Sending sending{&message};
  const bool unasked = leaves_unasked(message, comes_back);
  if (!unasked || layout_.is_medium(message)) ways_.sends(message);
  if (unasked) {
    sending.first = PacketKind::eager;
  } else {
    if (!layout_.notice_tells(message)) sending.content = outbox_.enter(message);  // else nobody gets the same
    read_notes(done);  // a receive that has been posted by now spares the notice
    if (const auto wish = asked_for_.pop(message.tag)) {
      turns_.push_back({kind_for(*wish, message), sending});
      return;
    }
  }
  const bool first = !held_.front(message.tag);
  if (!unasked || !first) held_.push(message.tag, sending);
  if (!first) return;
  const SendTurn turn{sending.first, sending};
  if (!turns_.empty() || !put_single(turn, done)) turns_.push_back(turn);
}

bool Outgoing::leaves_unasked(const Message& message, bool comes_back) {
  if (layout_.is_large(message)) return false;
  const bool may_be = reads_ != SingleCopy::off && layout_.is_medium(message) &&
                      shares_line(message.memory.size_bytes()) && may_be_read(message);
  if (!may_be || reads_ == SingleCopy::on) return !may_be;
  // Where nothing comes back this rank goes on as soon as the message has left, and need not wait for its receiver.
  return !comes_back || ways_.choose_to_send(message) != ShmWay::read;
}

bool Outgoing::progress(std::vector<Message*>& done) {
  const std::size_t pending = pending_;
  read_notes(done);
  const auto sent = [this] { return packets_.written_bytes() + pieces_bytes_; };
  const std::uint64_t before = sent();
  while (sent() - before < kBytesPerTurn && put_next(done)) continue;
  writing_.write();  // no movement: the caller's own copies are not to wait until its receivers have it all
  return sent() > before || pending_ < pending;
}

PacketKind Outgoing::kind_for(ControlKind wish, const Message& message) const {
  return wish == ControlKind::read && may_be_read(message) ? PacketKind::remote : PacketKind::fragment;
}

bool Outgoing::may_be_read(const Message& message) const {
  // What a far core has read is written at a twelfth of the speed the next time, and this rank pays for it, where the
  // caches hold the message: docs/explanation/decisions/0104-written-for-far-readers.md.
  if (message.passed_on && stores_for(message.bytes) == Stores::ordinary && is_far()) return false;
  return message.memory.size_bytes() <= layout_.fragment_bytes;
}

void Outgoing::read_notes(std::vector<Message*>& done) {
  while (const auto note = notes_.pop()) {
    if (note->kind == ControlKind::taken) {
      if (being_read_.empty()) throw InternalError("a receiver has taken a message that was not sent");
      finish_read(being_read_.front(), done);
      being_read_.pop_front();
    } else if (note->kind == ControlKind::fetched) {
      const auto sending = held_.pop(note->tag);
      if (!sending) throw InternalError("a receiver has fetched a message that was not noticed");
      finish_read(*sending, done);
      release_behind(note->tag);
    } else if (note->kind == ControlKind::offered) {
      const bool is_remote = note->offer.then == ControlKind::taken;
      const Sending* const sending = !is_remote            ? held_.front(note->tag)
                                     : being_read_.empty() ? nullptr
                                                           : &being_read_.front();
      if (!sending) throw InternalError("a receiver offers its memory for a message that was not sent");
      writing_.begin(*sending->message, note->offer, ways_.wants_time_to_send(*sending->message));
    } else if (const auto sending = held_.pop(note->tag)) {
      turns_.push_back({kind_for(note->kind, *sending->message), *sending, /*noticed=*/true});
      release_behind(note->tag);
    } else {
      asked_for_.push(note->tag, note->kind);
    }
  }
}

void Outgoing::finish_read(const Sending& sending, std::vector<Message*>& done) {
  const Message& message = *sending.message;
  const Writing::Part mine = writing_.end(message);
  if (is_worth_a_choice(message)) ways_.written(message, mine.bytes, mine.ns);
  finish(sending, done);
}

void Outgoing::release_behind(std::uint64_t tag) {
  while (const Sending* next = held_.front(tag)) {
    turns_.push_back({next->first, *next});
    if (next->first == PacketKind::notice) return;
    held_.pop(tag);
  }
}

bool Outgoing::put_next(std::vector<Message*>& done) {
  if (turns_.empty()) return stream_.sending.message && put_fragment(done);
  const SendTurn turn = turns_.front();
  // What goes to several peers is not read: each of them would fetch it from memory, one after the other.
  const bool streams = turn.kind == PacketKind::fragment ||
                       (turn.kind == PacketKind::remote && outbox_.messages_of(turn.sending.content) > 1);
  if (!streams) {
    if (!put_single(turn, done)) return false;
  } else if (stream_.sending.message) {
    return put_fragment(done);
  } else {
    const Message& message = *turn.sending.message;
    stream_ = {turn.sending, SpanCursor(message.memory), 0, turn.noticed, false, ways_.wants_time_to_send(message)};
    if (!put_fragment(done)) {
      stream_.sending = {};  // a stream is under way from its first packet on: nothing overtakes that one
      return false;
    }
  }
  turns_.pop_front();
  return true;
}

std::size_t Outgoing::payload_bytes(PacketKind kind, const Message& message) const {
  if (kind == PacketKind::eager) return message.bytes;
  const std::size_t list_bytes = message.memory.size_bytes();
  const bool tells =
      kind == PacketKind::remote || (layout_.notice_tells(message) && shares_line(list_bytes) && may_be_read(message));
  return tells ? list_bytes : 0;
}

bool Outgoing::put_single(const SendTurn& turn, std::vector<Message*>& done) {
  const Message& message = *turn.sending.message;
  const std::size_t bytes = payload_bytes(turn.kind, message);
  std::byte* payload = packets_.reserve(bytes);
  if (!payload) return false;
  if (turn.kind == PacketKind::eager) {
    SpanCursor memory(message.memory);
    const bool timed = layout_.is_medium(message) && ways_.wants_time_to_send(message);
    const std::int64_t begin = timed ? clock_ns(bytes) : 0;
    stores_.write(bytes, [&](Stores suited) { memory.gather(payload, bytes, suited); });
    if (timed) ways_.sent(message, clock_ns(bytes) - begin);
  } else {
    std::memcpy(payload, message.memory.data(), bytes);
  }
  packets_.publish(turn.kind, fields(message, bytes, turn.noticed));
  if (turn.kind == PacketKind::eager) finish(turn.sending, done);
  if (turn.kind == PacketKind::remote) {
    outbox_.leave(turn.sending.content);
    being_read_.push_back({turn.sending.message});
  }
  return true;
}

bool Outgoing::put_fragment(std::vector<Message*>& done) {
  const Message& message = *stream_.sending.message;
  const std::size_t before = stream_.sent_bytes;
  if (!put_piece()) put_copy();
  if (stream_.sent_bytes == before) return false;
  if (stream_.sent_bytes == message.bytes) {
    if (stream_.timed && !stream_.shared) ways_.sent(message, stream_.copies_ns);
    finish(stream_.sending, done);
    stream_.sending = {};
  }
  return true;
}

void Outgoing::put_copy() {
  const Message& message = *stream_.sending.message;
  // Up to where the next piece begins. Not less, though a receiver could then begin earlier: both cores fight for each
  // header's line, and between far ones a message of 32 KiB took up to twice as long in eight packets as in one.
  const std::size_t piece_bytes = piece_bytes_for(message.bytes);
  const std::size_t bytes = std::min(
      {piece_bytes - stream_.sent_bytes % piece_bytes, layout_.packet_bytes, message.bytes - stream_.sent_bytes});
  std::byte* payload = packets_.reserve(bytes);
  if (!payload) return;
  const std::int64_t begin = stream_.timed ? clock_ns(bytes) : 0;
  stores_.write(bytes, [&](Stores suited) { stream_.memory.gather(payload, bytes, suited); });
  if (stream_.timed) stream_.copies_ns += clock_ns(bytes) - begin;
  packets_.publish(PacketKind::fragment, fields(message, bytes, stream_.noticed));
  stream_.sent_bytes += bytes;
}

bool Outgoing::put_piece() {
  const Message& message = *stream_.sending.message;
  const std::size_t piece_bytes = piece_bytes_for(message.bytes);
  if (stream_.sent_bytes % piece_bytes != 0) return false;  // the rest of one that had no place
  const std::size_t bytes = std::min(piece_bytes, message.bytes - stream_.sent_bytes);
  const Outbox::ContentIndex content = stream_.sending.content;
  // Alone, too, where the others went on without this receiver, or one of them would not wait.
  auto place = outbox_.find(content, stream_.sent_bytes);
  const bool alone = !place && (outbox_.messages_of(content) == 1 || outbox_.is_past(content, stream_.sent_bytes));
  if (alone && (!outbox_.has_places() || message.bytes <= layout_.through_ring_bytes)) return false;
  const std::size_t messages = alone ? 1 : outbox_.messages_of(content);
  PieceNote note{0, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(messages)};
  std::byte* payload = packets_.reserve(sizeof note);
  if (!payload) return true;
  if (place) {
    stream_.memory.skip(bytes);
  } else {
    // Others want places, too. The notes of those that lie there take a line each.
    if (alone && packets_.unread_bytes() / kLine * bytes >= outbox_.bytes() / 4 * 3) return true;
    const std::int64_t begin = alone && stream_.timed ? clock_ns(bytes) : 0;
    place = alone ? outbox_.put_alone(stream_.memory, bytes, stores_)
                  : outbox_.put(content, stream_.sent_bytes, stream_.memory, bytes);
    if (!place && (alone ? packets_.unread_bytes() > 0 : waits_for_place())) return true;
    if (alone || !place) outbox_.pass(content, stream_.sent_bytes);
    if (!place) return false;
    if (alone && stream_.timed) stream_.copies_ns += clock_ns(bytes) - begin;
  }
  waits_since_ns_ = 0;
  gave_up_waiting_ = false;
  note.place = *place;
  outbox_.give(*place);
  if (!alone) stream_.shared = true;
  std::memcpy(payload, &note, sizeof note);
  packets_.publish(PacketKind::piece, fields(message, sizeof note, stream_.noticed));
  pieces_bytes_ += bytes;
  stream_.sent_bytes += bytes;
  return true;
}

bool Outgoing::waits_for_place() {
  // All places wait for receivers. One that takes what it is given need not wait long for one that does not, and not
  // again before a place is free.
  if (gave_up_waiting_) return false;
  const std::int64_t now = clock_ns(0);
  if (waits_since_ns_ == 0 || packets_.unread_bytes() > 0) waits_since_ns_ = now;
  gave_up_waiting_ = now - waits_since_ns_ >= kPatienceNs;
  return !gave_up_waiting_;
}

std::size_t Outgoing::piece_bytes_for(std::size_t message_bytes) const {
  const std::size_t least = layout_.least_piece_bytes;
  return std::clamp(message_bytes / kPiecesAtLeast, least, layout_.piece_bytes) / least * least;
}

void Outgoing::finish(const Sending& sending, std::vector<Message*>& done) {
  outbox_.leave(sending.content);
  --pending_;
  done.push_back(sending.message);
}

}  // namespace lanecast::shm
