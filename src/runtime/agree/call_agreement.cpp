// SPDX-License-Identifier: Apache-2.0
#include "runtime/agree/call_agreement.h"

#include "base/mix.h"

namespace lanecast {
namespace {

/// Never 0, which is the stamp of messages outside any call.
constexpr std::uint32_t stamp_of(std::uint64_t chain) {
  constexpr std::uint32_t kMask = 0x7fffffff;
  return static_cast<std::uint32_t>(chain & kMask) | 1u;
}

/// A peer that is thousands of calls ahead may still have sent what this rank waits for: some lost packets, each sent
/// again later than the one before, hold up a network no longer.
constexpr auto kHeldUp = std::chrono::seconds(2);

}  // namespace

CallAgreement::CallAgreement(Router& router, int rank, std::uint64_t communicator, bool on)
    : router_(router), rank_(rank), communicator_(communicator), on_(on) {
  CallNote nothing_yet;
  nothing_yet.communicator = communicator_;
  router_.publish(nothing_yet);
}

std::uint32_t CallAgreement::begin(std::uint64_t sequence, const Signature& signature) {
  if (!on_) return 0;
  sequence_ = sequence;
  chain_ = mix(chain_, signature.hash);
  if (signature.own) counted_[sequence % counted_.size()] = {sequence, chain_, signature.own};
  CallNote note;
  note.communicator = communicator_;
  note.sequence = sequence;
  note.chain = chain_;
  signature.text.copy(note.text.data(), note.text.size() - 1);
  mine_.put(note);
  router_.publish(note);
  return stamp_of(chain_);
}

std::uint32_t CallAgreement::begin_launched(const Signature& signature) {
  if (!on_) return 0;
  launched_chain_ = mix(launched_chain_, signature.hash);
  return stamp_of(launched_chain_);
}

void CallAgreement::compare(std::span<const int> peers, std::chrono::steady_clock::duration waited) const {
  if (!on_) return;
  for (const int peer : peers) {
    // Backwards to the first call that differs: the peer may be in an earlier call than this rank, or a library that
    // ran a whole call by itself did not find out about it.
    std::optional<Differing> first;
    for (std::uint64_t sequence = sequence_; sequence > 0; --sequence) {
      const auto mine = mine_.find(sequence);
      if (!mine) break;
      const auto theirs = router_.witness(peer).published(peer, sequence);
      if (!theirs || theirs->communicator != communicator_) {
        if (first) break;
        continue;
      }
      if (theirs->chain == 0) {
        if (sequence == sequence_ && waited >= kHeldUp) refuse_forgotten(peer, *mine, *theirs);
        if (first) break;
        continue;
      }
      if (theirs->chain == mine->chain) {
        if (first) first->is_first = true;
        break;
      }
      first = Differing{*mine, *theirs, sequence == 1};
    }
    if (first) refuse(peer, *first);
  }
}

void CallAgreement::refuse(int peer, const Differing& call) const {
  const auto& [mine, theirs, is_first] = call;
  std::string text = "call " + std::to_string(mine.sequence) + " of this communicator" +
                     (is_first ? "" : ", or an earlier one,") + " differs between ranks: " + both(peer, mine, theirs);
  if (mine.text == theirs.text) text += " (their counts of the parts, or the ends of these texts, differ)";
  throw MismatchError(text);
}

void CallAgreement::refuse_forgotten(int peer, const CallNote& mine, const CallNote& theirs) const {
  throw MismatchError("call " + std::to_string(mine.sequence) +
                      " of this communicator does not end, and is so long ago for rank " + std::to_string(peer) +
                      " that the two cannot be compared: " + both(peer, mine, theirs));
}

std::string CallAgreement::both(int peer, const CallNote& mine, const CallNote& theirs) const {
  const auto says = [](int rank, const CallNote& note) {
    return "rank " + std::to_string(rank) + " calls " + note.text.data();
  };
  return in_order(peer, says(rank_, mine), says(peer, theirs));
}

std::string CallAgreement::in_order(int peer, const std::string& mine, const std::string& theirs) const {
  return rank_ < peer ? mine + "; " + theirs : theirs + "; " + mine;
}

}  // namespace lanecast
