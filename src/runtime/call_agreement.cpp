// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_agreement.h"

#include <cstdio>
#include <numeric>

#include "base/mix.h"
#include "plan/composition.h"
#include "runtime/layout.h"

namespace lanecast {
namespace {

constexpr std::uint32_t kStampMask = 0x7fffffff;

/// A peer that is thousands of calls ahead may still have sent what this rank waits for: some lost packets, each sent
/// again later than the one before, hold up a network no longer.
constexpr auto kHeldUp = std::chrono::seconds(2);

bool uneven(const std::vector<std::size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end();
}

/// The collective and its arguments; the same number for each part may be given once or one by one.
std::string what_of(const Plan& plan, const Shape& shape) {
  if (shape.is_barrier) return "barrier";
  std::string text(name_of(plan.collective.kind));
  if (plan.collective.composition) {
    char digest[20];
    std::snprintf(digest, sizeof digest, " %016llx",
                  static_cast<unsigned long long>(plan.collective.composition->digest()));
    text += digest;
  }
  text += " of ";
  if (shape.own_counts())
    text += "own counts";
  else if (uneven(shape.counts))
    text += std::to_string(full_bytes(plan, shape) / size_of(shape.dtype)) + " in all";
  else
    text += std::to_string(shape.counts.empty() ? shape.count : shape.counts[0]);
  text += " " + std::string(name_of(shape.dtype));
  if (plan.collective.reduces()) text += ", " + std::string(name_of(shape.op));
  if (plan.collective.reproducible) text += " in rank order";
  if (has_root(plan.collective.kind)) text += ", root " + std::to_string(plan.collective.root);
  return text;
}

}  // namespace

std::size_t full_bytes(const Plan& plan, const Shape& shape) {
  if (shape.own_counts()) return 0;
  const int parts = plan.collective.kind == Kind::all_to_all ? plan.collective.size : plan.collective.parts();
  const std::size_t elements = shape.counts.empty()
                                   ? shape.count * static_cast<std::size_t>(parts)
                                   : std::accumulate(shape.counts.begin(), shape.counts.end(), std::size_t{0});
  return elements * size_of(shape.dtype);
}

Signature signature_of(const Plan& plan, const Shape& shape) {
  Signature signature;
  std::string& text = signature.text;
  text = what_of(plan, shape);
  text += ", by " + plan.algorithm + " in ";
  if (shape.piece)  // which gives each rank chunks of a number of its own
    text += "pieces of " + std::to_string(shape.piece);
  else
    text += std::to_string(shape.chunks) + (shape.chunks == 1 ? " chunk" : " chunks");
  for (const char letter : text) signature.hash = mix(signature.hash, static_cast<unsigned char>(letter));
  if (uneven(shape.counts))
    for (const std::size_t count : shape.counts) signature.hash = mix(signature.hash, count);
  signature.own = own_counts_of(plan, shape);
  return signature;
}

CallAgreement::CallAgreement(Router& router, int rank, std::uint64_t communicator, bool on)
    : router_(router), rank_(rank), communicator_(communicator), on_(on) {
  CallNote nothing_yet;
  nothing_yet.communicator = communicator_;
  for (std::size_t k = 0; k < router_.count(); ++k) router_[k].publish(nothing_yet);
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
  for (std::size_t k = 0; k < router_.count(); ++k) router_[k].publish(note);
  // Never 0, which is the stamp of messages outside any call.
  return static_cast<std::uint32_t>(chain_ & kStampMask) | 1u;
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
      const auto theirs = router_.to(peer).published(peer, sequence);
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
