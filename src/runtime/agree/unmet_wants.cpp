// SPDX-License-Identifier: Apache-2.0
// What a peer waits for and this rank will never do: found from what the two have posted, whatever is on its way.
#include <algorithm>

#include "runtime/agree/call_agreement.h"
#include "runtime/agree/wait_chain.h"

namespace lanecast {
namespace {

/// Both ranks move what they can between two looks: a message that is taken early takes a turn or two of each.
constexpr int kEnoughLooks = 5;
constexpr double kSilent_s = 0.2;  // who waits says so several times in between

}  // namespace

void CallAgreement::tell_wants(const UnderWay& call, const Wait& wait) {
  if (!on_) return;
  ++looks_;
  const Row row = wait.blocked ? behind(wait) : Row{};
  for (const int peer : wait.awaited) {
    std::optional<Want> want = call.want(peer);
    // A rank that may make another call meanwhile may begin the one in which the peer waits for it.
    if (!want || (want->of != Want::Of::counts && !wait.blocked)) continue;
    want->call = sequence_;
    want->chain = chain_;
    if (want->of != Want::Of::counts) {
      want->looks = looks_;
      want->behind = row;
    }
    router_.witness(peer).want(peer, *want);
  }
}

void CallAgreement::refuse_unmet_wants(const UnderWay& call, const Wait& wait) {
  if (!on_) return;
  for (int peer = 0; peer < router_.size(); ++peer) {
    if (peer == rank_) continue;
    const auto want = router_.witness(peer).wanted(peer);
    if (!want) continue;
    if (want->of == Want::Of::counts) {
      compare_counts(peer, *want);
    } else if (wait.blocked && lacks_message(peer, *want)) {
      if (closes_circle(want->behind) && blocks(peer, *want, wait)) refuse_circle(peer, *want, call);
      if (want->call < sequence_ && never_ends(call, peer, *want, wait)) refuse_message(peer, *want);
    }
  }
}

bool CallAgreement::lacks_message(int peer, const Want& want) const {
  const auto posted =
      messages_.posted(want.of == Want::Of::receive ? Transfer::Way::receive : Transfer::Way::send, peer, want.tag);
  // What has been posted reaches the peer, whatever it has said before.
  return posted && *posted <= want.ordinal;
}

Row CallAgreement::behind(const Wait& wait) {
  Row longest;
  for (int peer = 0; peer < router_.size(); ++peer) {
    if (peer == rank_) continue;
    const auto want = router_.witness(peer).wanted(peer);
    // The longest: in a circle that others wait for, no row of theirs outgrows that of the circle for ever.
    if (!want || want->of == Want::Of::counts || !lacks_message(peer, *want) || !blocks(peer, *want, wait)) continue;
    if (want->behind.length >= longest.length) longest = want->behind.and_then(peer);
  }
  return longest;
}

bool CallAgreement::closes_circle(const Row& row) const {
  // One more stands before this rank, so where there are as many as ranks, one stands there twice.
  if (row.length + 1 >= static_cast<std::uint64_t>(router_.size())) return true;
  const auto named = std::span(row.last).first(std::min(row.length, Row::kNamed));
  return std::ranges::find(named, static_cast<std::uint32_t>(rank_)) != named.end();
}

bool CallAgreement::blocks(int peer, const Want& want, const Wait& wait) {
  // What is to be received may be taken early.
  return want.of == Want::Of::send || lasts(peer, want, wait);
}

bool CallAgreement::lasts(int peer, const Want& want, const Wait& wait) {
  Seen& seen = seen_[peer];
  Want again = want;
  again.looks = seen.last.looks;
  again.behind = seen.last.behind;
  if (seen.since != wait.since || again != seen.last)
    seen = {wait.since, want};
  else if (want.looks != seen.last.looks)
    seen = {wait.since, want, seen.times + 1};
  return seen.times >= kEnoughLooks;
}

bool CallAgreement::never_ends(const UnderWay& call, int peer, const Want& want, const Wait& wait) {
  switch (call.needs(peer)) {
    case Needs::no:
      return false;
    case Needs::yes:
      return blocks(peer, want, wait);
    case Needs::perhaps:
      break;
  }
  if (waits_for(router_, {rank_, router_.size(), wait.awaited, kSilent_s, wait.ran}, peer))
    return lasts(peer, want, wait);
  seen_.erase(peer);
  return false;
}

void CallAgreement::compare_counts(int peer, const Want& want) const {
  const Counted& mine = counted_[want.call % counted_.size()];
  if (mine.sequence != want.call || mine.chain != want.chain) return;  // not begun yet, or long ago, or another one
  const std::uint64_t gives = mine.counts->gives[peer], takes = mine.counts->takes[peer];
  if (gives == want.takes && takes == want.gives) return;
  const auto note = mine_.find(want.call);
  const auto says = [&](int rank, int other, bool sends, std::uint64_t count) {
    return "rank " + std::to_string(rank) + " calls " + (note ? note->text.data() : "it") + ", and " +
           (sends ? "sends " : "expects ") + std::to_string(count) + " elements " + (sends ? "to" : "from") + " rank " +
           std::to_string(other);
  };
  const bool sends = gives != want.takes;
  throw MismatchError("call " + std::to_string(want.call) + " of this communicator differs between ranks: " +
                      in_order(peer, says(rank_, peer, sends, sends ? gives : takes),
                               says(peer, rank_, !sends, sends ? want.takes : want.gives)));
}

std::string CallAgreement::theirs(int peer, const Want& want) const {
  const Transfer message{want.of == Want::Of::receive ? Transfer::Way::send : Transfer::Way::receive, nullptr,
                         want.bytes, rank_, static_cast<std::int64_t>(want.tag)};
  return "rank " + std::to_string(peer) + " calls " + describe(message) + " (before its call " +
         std::to_string(want.call + 1) + ")";
}

void CallAgreement::refuse_message(int peer, const Want& want) const {
  const auto note = mine_.find(sequence_);
  throw MismatchError("the ranks have made different calls, and neither can end: " +
                      in_order(peer,
                               "rank " + std::to_string(rank_) + " calls " + (note ? note->text.data() : "") +
                                   " (call " + std::to_string(sequence_) + " of this communicator)",
                               theirs(peer, want)));
}

void CallAgreement::refuse_circle(int peer, const Want& want, const UnderWay& call) const {
  std::string way = "rank " + std::to_string(peer) + " for rank " + std::to_string(rank_);
  int awaited = peer;
  for (std::uint64_t k = 0; k < std::min(want.behind.length, Row::kNamed) && awaited != rank_; ++k) {
    const int waits = static_cast<int>(want.behind.last[k]);
    way.insert(0, "rank " + std::to_string(waits) + " for rank " + std::to_string(awaited) + ", ");
    awaited = waits;
  }
  throw MismatchError(
      "the ranks wait for each other's messages, and none can end: " + way + "; " +
      in_order(peer, "rank " + std::to_string(rank_) + " calls " + call.waiting_for(-1), theirs(peer, want)));
}

}  // namespace lanecast
