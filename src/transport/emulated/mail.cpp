// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/mail.h"

#include <algorithm>
#include <cstring>

#include "transport/span_cursor.h"

namespace lanecast::emulated {

std::byte* Mail::content_of(NicWork& work, const Envelope& envelope, std::size_t bytes) {
  work = {.posted_ns = now_ns(), .message_bytes = static_cast<std::uint32_t>(sizeof envelope + bytes)};
  std::byte* const message = Ring<NicWork>::message(&work);
  std::memcpy(message, &envelope, sizeof envelope);
  return message + sizeof envelope;
}

void Mail::hand_over(std::size_t queue) const {
  works_[queue].push();
  port_->ring();
}

void Mail::send(const Envelope& envelope, std::span<const std::byte> content) {
  const auto write = [&](std::byte* to) { std::ranges::copy(content, to); };
  if (!send_now(envelope, content.size(), write))
    letters_.push_back({envelope, {content.begin(), content.end()}, nullptr});
}

void Mail::send(const Envelope& envelope, Message& message) {
  const auto write = [&](std::byte* to) { SpanCursor(message.memory).gather(to, message.bytes); };
  if (send_now(envelope, message.bytes, write))
    done_->push_back(&message);
  else
    letters_.push_back({envelope, {}, &message});
}

std::uint64_t Mail::put(const Put& what, const Envelope& envelope) {
  puts_.push_back({what, envelope});
  push();
  return ++last_put_;
}

void Mail::forget() {
  std::erase_if(letters_, [](const KeptLetter& letter) { return letter.envelope.letter != emulated::Letter::note; });
  puts_.clear();
}

bool Mail::push() {
  bool any = false;
  while (!letters_.empty()) {
    NicWork* const work = works_[0].to_write();
    if (!work) break;
    const KeptLetter& next = letters_.front();
    if (Message* const message = next.message) {
      SpanCursor(message->memory).gather(content_of(*work, next.envelope, message->bytes), message->bytes);
      done_->push_back(message);
    } else {
      std::ranges::copy(next.content, content_of(*work, next.envelope, next.content.size()));
    }
    letters_.pop_front();
    hand_over(0);
    any = true;
  }
  while (!puts_.empty()) {
    NicWork* const work = works_[1].to_write();
    if (!work) break;
    content_of(*work, puts_.front().envelope, 0);
    work->put = puts_.front().what;
    puts_.pop_front();
    hand_over(1);
    any = true;
  }
  return any;
}

const Envelope* Mail::arrived(Queue queue) const {
  Arrival* const arrival = arrivals_[static_cast<std::size_t>(queue)].to_read();
  return arrival ? reinterpret_cast<const Envelope*>(Ring<Arrival>::message(arrival)) : nullptr;
}

std::span<const std::byte> Mail::content(Queue queue) const {
  Arrival* const arrival = arrivals_[static_cast<std::size_t>(queue)].to_read();
  return {Ring<Arrival>::message(arrival) + sizeof(Envelope), arrival->bytes - sizeof(Envelope)};
}

}  // namespace lanecast::emulated
