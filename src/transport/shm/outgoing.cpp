// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/outgoing.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lanecast::shm {

namespace {

constexpr std::size_t kFragmentsAtLeast = 8;
constexpr std::size_t kSmallestFragment = 4096 - kLine;
constexpr unsigned kPatience = 64;  // calls of progress(); some 10 us where ranks have a core each

PacketFields fields(const Message& message, std::size_t payload_bytes, bool noticed) {
  return {message.tag, message.bytes, static_cast<std::uint32_t>(payload_bytes), noticed ? 1u : 0u, message.stamp};
}

}  // namespace

void Outgoing::post(Message& message, std::vector<Message*>& done) {
  ++pending_;
  Sending sending{&message};
  if (is_large(message)) {
    ways_.sends(message.bytes);
    sending.content = outbox_.enter(message);
    if (const auto wish = asked_for_.pop(message.tag)) {
      turns_.push_back({kind_for(*wish, message), sending});
      return;
    }
  }
  const bool first = !held_.front(message.tag);
  if (is_large(message) || !first) held_.push(message.tag, sending);
  if (!first) return;
  const Turn turn{is_large(message) ? PacketKind::notice : PacketKind::eager, sending};
  if (!turns_.empty() || !put_single(turn, done)) turns_.push_back(turn);
}

bool Outgoing::progress(std::vector<Message*>& done) {
  const std::size_t pending = pending_;
  read_notes(done);
  const auto sent = [this] { return packets_.written_bytes() + pieces_bytes_; };
  const std::uint64_t before = sent();
  while (sent() - before < kBytesPerTurn && put_next(done)) continue;
  return sent() > before || pending_ < pending;
}

PacketKind Outgoing::kind_for(ControlKind wish, const Message& message) const {
  const bool list_fits = message.memory.size_bytes() <= layout_.fragment_bytes;
  return wish == ControlKind::read && list_fits ? PacketKind::remote : PacketKind::fragment;
}

void Outgoing::read_notes(std::vector<Message*>& done) {
  while (const auto note = notes_.pop()) {
    if (note->kind == ControlKind::taken) {
      if (being_read_.empty()) throw InternalError("a receiver has taken a message that was not sent");
      finish(being_read_.front(), done);
      being_read_.pop_front();
    } else if (const auto sending = held_.pop(note->tag)) {
      turns_.push_back({kind_for(note->kind, *sending->message), *sending, /*noticed=*/true});
      release_behind(note->tag);
    } else {
      asked_for_.push(note->tag, note->kind);
    }
  }
}

void Outgoing::release_behind(std::uint64_t tag) {
  while (const Sending* next = held_.front(tag)) {
    if (is_large(*next->message)) {
      turns_.push_back({PacketKind::notice, *next});
      return;
    }
    turns_.push_back({PacketKind::eager, *next});
    held_.pop(tag);
  }
}

bool Outgoing::put_next(std::vector<Message*>& done) {
  if (turns_.empty()) return stream_.sending.message && put_fragment(done);
  const Turn turn = turns_.front();
  if (turn.kind != PacketKind::fragment) {
    if (!put_single(turn, done)) return false;
  } else if (stream_.sending.message) {
    return put_fragment(done);
  } else {
    stream_ = {turn.sending, SpanCursor(turn.sending.message->memory), 0, turn.noticed};
    if (!put_fragment(done)) {
      stream_.sending = {};  // a stream is under way from its first packet on: nothing overtakes that one
      return false;
    }
  }
  turns_.pop_front();
  return true;
}

bool Outgoing::put_single(const Turn& turn, std::vector<Message*>& done) {
  const Message& message = *turn.sending.message;
  std::size_t bytes = 0;
  if (turn.kind == PacketKind::eager) bytes = message.bytes;
  if (turn.kind == PacketKind::remote) bytes = message.memory.size_bytes();
  std::byte* payload = packets_.reserve(bytes);
  if (!payload) return false;
  if (turn.kind == PacketKind::eager) {
    SpanCursor memory(message.memory);
    copy_in_.gather(memory, payload, bytes);
  }
  if (turn.kind == PacketKind::remote) std::memcpy(payload, message.memory.data(), bytes);
  packets_.publish(turn.kind, fields(message, bytes, turn.noticed));
  if (turn.kind == PacketKind::eager) finish(turn.sending, done);
  if (turn.kind == PacketKind::remote) being_read_.push_back(turn.sending);
  return true;
}

bool Outgoing::put_fragment(std::vector<Message*>& done) {
  const Message& message = *stream_.sending.message;
  const std::size_t bytes = std::min(fragment_bytes_for(message.bytes), message.bytes - stream_.sent_bytes);
  const Shared shared = put_piece(bytes);
  if (shared == Shared::not_yet || (shared == Shared::no && !put_copy(bytes))) return false;
  stream_.sent_bytes += bytes;
  if (stream_.sent_bytes == message.bytes) {
    if (is_timed(message)) ways_.sent(message, static_cast<std::int64_t>(stream_.copies_ns));
    finish(stream_.sending, done);
    stream_.sending = {};
  }
  return true;
}

bool Outgoing::put_copy(std::size_t bytes) {
  const Message& message = *stream_.sending.message;
  std::byte* payload = packets_.reserve(bytes);
  if (!payload) return false;
  const bool timed = is_timed(message);
  const std::int64_t begin = timed ? clock_ns(bytes) : 0;
  copy_in_.gather(stream_.memory, payload, bytes);
  if (timed) stream_.copies_ns += static_cast<double>(clock_ns(bytes) - begin);
  packets_.publish(PacketKind::fragment, fields(message, bytes, stream_.noticed));
  return true;
}

Outgoing::Shared Outgoing::put_piece(std::size_t bytes) {
  const Outbox::ContentIndex content = stream_.sending.content;
  auto place = outbox_.find(content, stream_.sent_bytes);
  if (!place && outbox_.messages_of(content) == 1) return Shared::no;
  PieceNote note{0, static_cast<std::uint32_t>(bytes), static_cast<std::uint32_t>(outbox_.messages_of(content))};
  std::byte* payload = packets_.reserve(sizeof note);
  if (!payload) return Shared::not_yet;
  if (place) {
    stream_.memory.skip(bytes);
  } else {
    place = outbox_.put(content, stream_.sent_bytes, stream_.memory, bytes);
    if (!place) {
      // All places wait for other receivers. This one must not for long: it may be what they wait for.
      if (turns_without_ > kPatience) return Shared::no;
      if (packets_.is_empty()) ++turns_without_;
      return Shared::not_yet;
    }
    turns_without_ /= 2;
  }
  note.place = *place;
  stream_.copies_ns += outbox_.give(*place);
  std::memcpy(payload, &note, sizeof note);
  packets_.publish(PacketKind::piece, fields(*stream_.sending.message, sizeof note, stream_.noticed));
  pieces_bytes_ += bytes;
  return Shared::put;
}

std::size_t Outgoing::fragment_bytes_for(std::size_t message_bytes) const {
  // Several fragments even for a message that fits into one: the receiver copies the first while the sender copies the
  // second.
  const std::size_t share = message_bytes / kFragmentsAtLeast / kLine * kLine;
  return std::clamp(share, std::min(kSmallestFragment, layout_.fragment_bytes), layout_.fragment_bytes);
}

void Outgoing::finish(const Sending& sending, std::vector<Message*>& done) {
  outbox_.leave(sending.content);
  --pending_;
  done.push_back(sending.message);
}

}  // namespace lanecast::shm
