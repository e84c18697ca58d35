// SPDX-License-Identifier: Apache-2.0
#include "transport/notes.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"

namespace lanecast {

Notes::Notes(NoteCarrier& carrier) : carrier_(carrier) {
  for (int rank = 0; rank < carrier_.size(); ++rank)
    if (rank != carrier_.rank()) carried_.push_back(rank);
}

Notes::Peer& Notes::listen_to(int rank) {
  auto& peer = peers_[rank];
  if (!peer) {
    peer = std::make_unique<Peer>();
    carrier_.listen_to(rank);
  }
  return *peer;
}

void Notes::listen_to_all() {
  if (static_cast<int>(peers_.size()) == carrier_.size() - 1) return;
  for (int rank = 0; rank < carrier_.size(); ++rank)
    if (rank != carrier_.rank()) listen_to(rank);
}

void Notes::take_arrived() {
  carrier_.take_arrived([this](int rank, std::span<const std::byte> bytes) { take(rank, bytes); });
}

void Notes::take(int rank, std::span<const std::byte> bytes) {
  Peer& peer = listen_to(rank);
  Note note;
  if (bytes.size() < sizeof(Header)) return;
  std::memcpy(&note, bytes.data(), std::min(bytes.size(), sizeof note));
  if (note.communicator != communicator_) return;
  // What is said of the length comes from elsewhere.
  note.body_bytes = std::min<std::uint64_t>({note.body_bytes, bytes.size() - sizeof(Header), note.body.size()});
  switch (note.subject) {
    case Subject::call:
      return take_calls(rank, peer, note);
    case Subject::wait:
      if (note.asks != 0) return send(rank, {.subject = Subject::wait}, std::as_bytes(std::span(awaited_)));
      peer.awaited.resize(note.body_bytes / sizeof(int));
      std::memcpy(peer.awaited.data(), note.body.data(), peer.awaited.size() * sizeof(int));
      peer.wait_asked = false;
      peer.heard = Clock::now();
      return;
    case Subject::want:
      peer.want_told = peer.want_told && note.asks != 0;
      if (note.asks == 0 || note.body_bytes < sizeof(Want)) return;
      std::memcpy(&peer.wanted.emplace(), note.body.data(), sizeof(Want));
      return send(rank, {.subject = Subject::want}, {});
    case Subject::failure:
      peer.failure = {note.failure, {reinterpret_cast<const char*>(note.body.data()), note.body_bytes}};
      return;
  }
}

void Notes::take_calls(int rank, Peer& peer, const Note& note) {
  for (std::size_t at = 0; at + sizeof(CallNote) <= note.body_bytes; at += sizeof(CallNote)) {
    CallNote call;
    std::memcpy(&call, note.body.data() + at, sizeof call);
    call.text.back() = '\0';
    if (note.asks == 0)
      peer.calls.put(call);
    else
      peer.question = call;
  }
  if (note.asks != 0) answer(rank, peer);
}

void Notes::answer(int rank, Peer& peer) {
  if (!peer.question || peer.question->sequence > begun_) return;
  const CallNote question = *peer.question;
  peer.question.reset();
  std::vector<CallNote> calls;
  if (question.chain == chain_of(question.sequence)) {
    peer.calls.put(question);
    calls.push_back(question);
  } else {
    // Earlier calls come first: once the one that was asked about is known, they are.
    const std::uint64_t before = std::min(question.sequence, std::uint64_t{CallBoard::kSlots});
    for (std::uint64_t sequence = question.sequence - before + 1; sequence < question.sequence; ++sequence)
      if (chain_of(sequence) != 0) calls.push_back(recall(sequence));
    if (chain_of(question.sequence) != 0 || question.sequence + kChains <= begun_)
      calls.push_back(recall(question.sequence));
  }
  for (std::span<const CallNote> left = calls; !left.empty();) {
    const auto next = left.first(std::min(left.size(), kMostCalls));
    send(rank, {.subject = Subject::call}, std::as_bytes(next));
    left = left.subspan(next.size());
  }
}

std::uint64_t Notes::chain_of(std::uint64_t sequence) const {
  const Chain& latest = chains_[sequence % kChains];
  return latest.sequence == sequence ? latest.chain : 0;
}

CallNote Notes::recall(std::uint64_t sequence) const {
  if (const auto call = mine_.find(sequence)) return *call;
  CallNote call;
  call.communicator = communicator_;
  call.sequence = sequence;
  call.chain = chain_of(sequence);
  std::string text = "one whose words it has forgotten, and is in call " + std::to_string(begun_) + " by now";
  if (const auto now = mine_.find(begun_)) text += std::string(": ") + now->text.data();
  text.copy(call.text.data(), call.text.size() - 1);
  return call;
}

void Notes::send(int rank, const Header& header, std::span<const std::byte> body) {
  Note note;
  static_cast<Header&>(note) = header;
  note.communicator = communicator_;
  note.body_bytes = std::min(body.size(), note.body.size());
  std::ranges::copy(body.first(note.body_bytes), note.body.begin());
  carrier_.send(rank, std::as_bytes(std::span(&note, 1)).first(sizeof(Header) + note.body_bytes));
}

std::optional<CallNote> Notes::published(int peer, std::uint64_t sequence) {
  Peer& theirs = listen_to(peer);
  const auto mine = mine_.find(sequence);
  if (mine && theirs.asked < sequence) {
    theirs.asked = sequence;
    send(peer, {.subject = Subject::call, .asks = true}, std::as_bytes(std::span(&*mine, 1)));
  }
  take_arrived();
  return theirs.calls.find(sequence);
}

void Notes::publish_wait(std::span<const int> peers, bool may_be_asked) {
  awaited_.assign(peers.begin(), peers.end());
  if (may_be_asked) listen_to_all();
  take_arrived();
  for (const auto& [rank, peer] : peers_) answer(rank, *peer);
}

std::optional<Waiting> Notes::waiting(int peer, double silent_s) {
  Peer& theirs = listen_to(peer);
  const auto now = Clock::now();
  const bool is_new = !theirs.heard;
  const std::chrono::duration<double> age = now - theirs.heard.value_or(now);
  if (is_new || (!theirs.wait_asked && age.count() > silent_s / 2)) {
    if (is_new) theirs.heard = now;
    theirs.wait_asked = true;
    send(peer, {.subject = Subject::wait, .asks = true}, {});
  }
  return Waiting{theirs.awaited, age.count()};
}

void Notes::want(int peer, const Want& want) {
  Peer& theirs = listen_to(peer);
  if (theirs.want_told || theirs.want == want) return;
  theirs.want = want;
  theirs.want_told = true;
  send(peer, {.subject = Subject::want, .asks = true}, std::as_bytes(std::span(&want, 1)));
}

std::optional<Want> Notes::wanted(int peer) {
  const auto theirs = peers_.find(peer);
  if (theirs == peers_.end()) return {};
  return theirs->second->wanted;
}

void Notes::give_up(const Failure& why) {
  for (const int rank : carried_) {
    try {
      send(rank, {.subject = Subject::failure, .failure = why.kind}, std::as_bytes(std::span(why.text)));
    } catch (const TransportError&) {
      // What has failed may be the way to this very rank, which then sees it for itself; the others are to hear.
    }
  }
}

Loss Notes::lost(int peer) {
  const Peer& theirs = listen_to(peer);
  take_arrived();
  if (!theirs.failure) return {};
  return {"its process has given up", theirs.failure};
}

std::optional<int> Notes::given_up() {
  if (carrier_.has_unheard()) listen_to_all();
  take_arrived();
  const auto found = std::ranges::find_if(peers_, [](const auto& peer) { return bool(peer.second->failure); });
  return found == peers_.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace lanecast
