// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/transport.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/error.h"

namespace lanecast {

using emulated::Envelope;
using emulated::Letter;
using emulated::Mail;
using emulated::Queue;

namespace {

constexpr auto kFarewell = std::chrono::milliseconds(2000);
constexpr auto kToLetGo = std::chrono::milliseconds(1000);

std::vector<Mail> mail_of(const emulated::OwnPort& port, std::vector<Message*>& done) {
  std::vector<Mail> mail;
  mail.reserve(static_cast<std::size_t>(port.size()));
  for (int peer = 0; peer < port.size(); ++peer) mail.emplace_back(port, peer, done);
  return mail;
}

}  // namespace

EmulatedTransport::EmulatedTransport(const Bootstrap& bootstrap, const std::string& folder, const std::string& host)
    : port_(bootstrap, folder, host),
      mail_(mail_of(port_, done_)),
      note_carrier_(port_.rank(), mail_, [this] { move(); }),
      notes_(*this),
      peers_(mail_.size()) {}

EmulatedTransport::~EmulatedTransport() {
  if (!left_)
    for (int peer = 0; peer < port_.size(); ++peer) {
      mail_[peer].forget();  // no message that is done waits there, and others may be gone
      if (peer != port_.rank()) mail_[peer].send({.letter = Letter::goodbye});
    }
  // Sends that are done may wait for the NIC, and a slow one takes its time for them.
  push_all(kFarewell, std::chrono::hours(1));
}

void EmulatedTransport::push_all(std::chrono::milliseconds silent, std::chrono::steady_clock::duration most) {
  const auto begin = std::chrono::steady_clock::now();
  auto moved = begin;
  while (!std::ranges::all_of(mail_, &Mail::sent)) {
    const auto now = std::chrono::steady_clock::now();
    for (Mail& mail : mail_)
      if (mail.push()) moved = now;
    if (now - moved > silent || now - begin > most || !port_.trouble(port_.rank()).empty()) return;
    std::this_thread::yield();
  }
}

std::optional<emulated::RegisteredPlace> EmulatedTransport::gpu_place(const Message& message) const {
  if (message.bytes == 0 || message.memory.size() != 1) return {};
  return port_.find(message.memory[0].data);
}

void EmulatedTransport::post_send(Message& message) {
  Mail& mail = mail_[message.peer];
  Envelope envelope{.letter = Letter::whole, .stamp = message.stamp, .tag = message.tag, .bytes = message.bytes};
  envelope.other = peers_[message.peer].puts_sent;
  const bool in_gpu = gpu_place(message).has_value();
  if (in_gpu || message.bytes > emulated::kMostInLetter) {
    Peer& peer = peers_[message.peer];
    if (const auto call = in_gpu ? peer.calls.pop(message.tag) : std::nullopt)
      if (call->bytes == message.bytes && call->stamp == message.stamp) {
        ++peer.puts_sent;
        return put(message, *call, /*announced=*/0);
      }
    envelope.letter = Letter::announce;
    envelope.own = ++last_number_;
    envelope.in_gpu = in_gpu ? 1 : 0;
    announced_[envelope.own] = &message;
    if (in_gpu) peer.announced.push(message.tag, envelope.own);
    return mail.send(envelope);
  }
  mail.send(envelope, message);
}

void EmulatedTransport::post_recv(Message& message) {
  Peer& peer = peers_[message.peer];
  const bool is_next = oldest_receive(peer, message.tag) == nullptr;
  const bool is_here = is_next && peer.early.front(message.tag) != nullptr;
  const auto place = is_here ? std::nullopt : gpu_place(message);
  const std::uint64_t number = place ? ++last_number_ : 0;
  peer.receives.push(message.tag, {&message, number});
  if (is_here) return match(peer, message.tag);
  if (!place) return;
  called_[number] = {&message, SpanCursor(message.memory), 0, true};
  mail_[message.peer].send({.letter = Letter::call_for,
                            .stamp = message.stamp,
                            .tag = message.tag,
                            .bytes = message.bytes,
                            .own = number,
                            .place = *place});
}

EmulatedTransport::PostedReceive* EmulatedTransport::oldest_receive(Peer& peer, std::uint64_t tag) {
  PostedReceive* oldest = peer.receives.front(tag);
  for (; oldest && oldest->called != 0 && !called_.contains(oldest->called); oldest = peer.receives.front(tag))
    peer.receives.pop(tag);  // its put has come, before letters for receives that are older
  return oldest;
}

void EmulatedTransport::match(Peer& peer, std::uint64_t tag) {
  while (const PostedReceive* const oldest = oldest_receive(peer, tag)) {
    if (!peer.early.front(tag)) return;
    const EarlyLetter& letter = *peer.early.front(tag);
    const PostedReceive receive = *oldest;
    const Envelope& envelope = letter.envelope;
    if (receive.called == 0) {
      meet(*receive.message, envelope, letter.content);
    } else {
      const Message& message = *receive.message;
      const bool fits = envelope.letter == Letter::announce && envelope.in_gpu != 0 &&
                        envelope.bytes == message.bytes && envelope.stamp == message.stamp;
      if (envelope.other > peer.puts_come) {  // it may be one behind the message that the receive is for
        peer.behind_puts.insert(tag);
        return;
      }
      // Where they differ the call stays: the sender may answer it still, and abort() has to know.
      called_[receive.called].unmet = false;
      if (!fits) mismatches_.push_back({receive.message, envelope.bytes, envelope.stamp});
    }
    peer.early.pop(tag);
    peer.receives.pop(tag);
  }
}

void EmulatedTransport::meet(Message& receive, const Envelope& envelope, std::span<const std::byte> content) {
  const auto place = gpu_place(receive);
  const bool other_memory = envelope.letter == Letter::announce && place.has_value() != (envelope.in_gpu != 0);
  if (envelope.bytes != receive.bytes || envelope.stamp != receive.stamp || other_memory ||
      (place && envelope.letter == Letter::whole))
    return mismatches_.push_back({&receive, envelope.bytes, envelope.stamp});
  if (envelope.letter == Letter::whole) {
    if (receive.consumer && !content.empty())
      receive.consumer->consume(0, content.data(), content.size());
    else if (!receive.consumer)
      SpanCursor(receive.memory).scatter(content.data(), content.size());
    return done_.push_back(&receive);
  }
  const std::uint64_t number = ++last_number_;
  called_[number] = {&receive, SpanCursor(receive.memory), 0, false};
  mail_[receive.peer].send({.letter = Letter::call_for,
                            .own = number,
                            .other = envelope.own,
                            .place = place.value_or(emulated::RegisteredPlace{})});
}

void EmulatedTransport::put(Message& message, const Envelope& call, std::uint64_t announced) {
  const std::uint64_t number =
      mail_[message.peer].put({gpu_place(message).value_or(emulated::RegisteredPlace{}), call.place, message.bytes},
                              {.letter = Letter::put_done, .own = announced, .other = call.own});
  peers_[message.peer].puts.push_back({number, &message});
}

void EmulatedTransport::called_for(int from, const Envelope& envelope) {
  Peer& peer = peers_[from];
  std::uint64_t number = envelope.other;
  if (number == 0) {
    const std::uint64_t* const waiting = peer.announced.front(envelope.tag);
    if (!waiting) return peer.calls.push(envelope.tag, envelope);
    const Message& message = *announced_.at(*waiting);
    // Another message than the receive is for: the announcement tells the other side.
    if (message.bytes != envelope.bytes || message.stamp != envelope.stamp) return;
    number = *waiting;
  }
  const auto found = announced_.find(number);
  if (found == announced_.end()) return;
  Message& message = *found->second;
  announced_.erase(found);
  if (gpu_place(message)) {
    peer.announced.pop(message.tag);
    put(message, envelope, number);
  } else {
    peer.streams.push_back({&message, SpanCursor(message.memory), message.bytes, envelope.own});
  }
}

void EmulatedTransport::take(int from, const Envelope& envelope, std::span<const std::byte> content) {
  Peer& peer = peers_[from];
  if (envelope.letter == Letter::note) return note_carrier_.arrived(from, content);
  if (envelope.letter == Letter::goodbye) peer.gone = true;
  if (left_) return;
  switch (envelope.letter) {
    case Letter::announce:
      if (peer.overtaken.erase(envelope.own) != 0) return;
      [[fallthrough]];
    case Letter::whole:
      if (const PostedReceive* const receive = oldest_receive(peer, envelope.tag);
          receive && receive->called == 0 && !peer.early.front(envelope.tag)) {
        Message& message = *receive->message;
        peer.receives.pop(envelope.tag);
        return meet(message, envelope, content);
      }
      peer.early.push(envelope.tag, {envelope, {content.begin(), content.end()}});
      return match(peer, envelope.tag);
    case Letter::call_for:
      return called_for(from, envelope);
    case Letter::fragment:
      return came(peer, envelope, content);
    case Letter::put_done:
      peer.puts_come += envelope.own == 0 ? 1 : 0;
      came(peer, envelope, content);
      for (const std::uint64_t tag : std::exchange(peer.behind_puts, {})) match(peer, tag);
      return;
    default:
      return;
  }
}

void EmulatedTransport::came(Peer& peer, const Envelope& envelope, std::span<const std::byte> content) {
  const auto called = called_.find(envelope.other);
  if (called == called_.end()) return;
  auto& [message, cursor, received, unmet] = called->second;
  if (unmet && envelope.own != 0) peer.overtaken.insert(envelope.own);
  if (message->consumer)
    message->consumer->consume(received, content.data(), content.size());
  else
    cursor.scatter(content.data(), content.size());
  received += content.size();
  if (envelope.letter == Letter::fragment && received < message->bytes) return;
  const std::uint64_t tag = message->tag;
  done_.push_back(message);
  called_.erase(called);
  match(peer, tag);
}

bool EmulatedTransport::stream(int to) {
  bool any = false;
  std::deque<FragmentStream>& streams = peers_[to].streams;
  while (!streams.empty()) {
    FragmentStream& next = streams.front();
    const std::size_t bytes = std::min<std::uint64_t>(next.left, emulated::kMostInLetter);
    if (!mail_[to].send_now({.letter = Letter::fragment, .other = next.number}, bytes,
                            [&](std::byte* at) { next.cursor.gather(at, bytes); }))
      return any;
    any = true;
    next.left -= bytes;
    if (next.left > 0) continue;
    done_.push_back(next.message);
    streams.pop_front();
  }
  return any;
}

bool EmulatedTransport::move() {
  bool any = false;
  for (int peer = 0; peer < port_.size(); ++peer) {
    Mail& mail = mail_[peer];
    for (const Queue queue : {Queue::messages, Queue::puts})
      for (const Envelope* envelope = nullptr; (envelope = mail.arrived(queue)); any = true) {
        take(peer, *envelope, mail.content(queue));
        mail.done(queue);
      }
    any |= mail.push();
    any |= stream(peer);
    std::deque<PutUnderWay>& puts = peers_[peer].puts;
    for (; !puts.empty() && puts.front().put <= mail.puts_done(); puts.pop_front(), any = true)
      done_.push_back(puts.front().message);
  }
  return any;
}

bool EmulatedTransport::progress(std::vector<Message*>& done) {
  const bool moved = move();
  if (done_.empty() && !mismatches_.empty()) {  // what came before says more, where ranks tell each other their counts
    const Mismatch mismatch = mismatches_.front();
    mismatches_.erase(mismatches_.begin());
    const Message& receive = *mismatch.receive;
    const bool same_stamp = mismatch.stamp == receive.stamp;
    if (mismatch.bytes != receive.bytes || !same_stamp)
      raise_mismatch(receive, port_.rank(), std::to_string(mismatch.bytes), traits().max_tag, same_stamp);
    throw TransportError("rank " + std::to_string(port_.rank()) + ": of a message from rank " +
                         std::to_string(receive.peer) + " one end lies in a GPU's memory and the other on a host");
  }
  const bool any = moved || !done_.empty();
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
  return any;
}

bool EmulatedTransport::arrived(int peer, std::uint64_t tag) {
  move();
  return peers_[peer].early.front(tag) != nullptr;
}

void EmulatedTransport::forget_messages() {
  for (Peer& peer : peers_) {
    peer.receives = {};
    peer.calls = {};
    peer.announced = {};
    peer.overtaken.clear();
    peer.behind_puts.clear();
    peer.early = {};
    peer.streams.clear();
    peer.puts.clear();
  }
  announced_.clear();
  called_.clear();
  done_.clear();
  mismatches_.clear();
}

void EmulatedTransport::abort(const Failure& cause) {
  if (std::exchange(left_, true)) return;
  for (Mail& mail : mail_) mail.forget();
  notes_.give_up(cause);
  // A NIC may be reading this rank's memory, and write what the rank has called for.
  push_all(kToLetGo, kToLetGo);
  const bool may_be_read = !std::ranges::all_of(mail_, &Mail::sent);
  const bool may_be_written =
      std::ranges::any_of(called_, [&](const auto& called) { return gpu_place(*called.second.message).has_value(); });
  if (may_be_read || may_be_written) port_.withdraw_all();
  forget_messages();
}

Loss EmulatedTransport::NicWitness::lost(int peer) {
  owner_.move();
  if (Loss said = Notes::lost(peer)) return said;
  if (!owner_.done_.empty()) return {};  // let progress() report it first
  if (owner_.peers_[peer].gone) return {"its process has closed its transport", {}, /*left=*/true};
  return {owner_.port_.trouble(peer), {}};
}

}  // namespace lanecast
