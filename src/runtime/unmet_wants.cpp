// SPDX-License-Identifier: Apache-2.0
// What a peer waits for and this rank will never do: found from what the two have posted, whatever is on its way.
#include "runtime/call_agreement.h"
#include "runtime/wait_chain.h"

namespace lanecast {
namespace {

/// Both ranks move what they can between two looks: a message that is taken early takes a turn or two of each.
constexpr int kEnoughLooks = 5;
constexpr double kSilent_s = 0.2;  // who waits says so several times in between

}  // namespace

void CallAgreement::tell_wants(const UnderWay& call, const Wait& wait) {
  if (!on_) return;
  ++looks_;
  for (const int peer : wait.awaited) {
    std::optional<Want> want = call.want(peer);
    // A rank that may make another call meanwhile may begin the one in which the peer waits for it.
    if (!want || (want->of != Want::Of::counts && !wait.blocked)) continue;
    want->call = sequence_;
    want->chain = chain_;
    if (want->of != Want::Of::counts) want->looks = looks_;
    router_.to(peer).want(peer, *want);
  }
}

void CallAgreement::refuse_unmet_wants(const UnderWay& call, const Wait& wait) {
  if (!on_) return;
  for (int peer = 0; peer < router_.size(); ++peer) {
    if (peer == rank_) continue;
    const auto want = router_.to(peer).wanted(peer);
    if (!want) continue;
    if (want->of == Want::Of::counts) {
      compare_counts(peer, *want);
    } else if (wait.blocked && lacks_message(peer, *want) && never_ends(call, peer, *want, wait)) {
      refuse_message(peer, *want);
    }
  }
}

bool CallAgreement::lacks_message(int peer, const Want& want) const {
  const auto posted =
      messages_.posted(want.of == Want::Of::receive ? Transfer::Way::receive : Transfer::Way::send, peer, want.tag);
  // What has been posted reaches the peer, whatever it has said before.
  return posted && *posted <= want.ordinal && want.call < sequence_;
}

bool CallAgreement::never_ends(const UnderWay& call, int peer, const Want& want, const Wait& wait) {
  const Needs needs = call.needs(peer);
  if (needs == Needs::yes && want.of == Want::Of::send) return true;
  const bool waits =
      needs == Needs::yes ||
      (needs == Needs::perhaps && waits_for(router_, {rank_, router_.size(), wait.awaited, kSilent_s}, peer));
  if (!waits) {
    seen_.erase(peer);
    return false;
  }
  Seen& seen = seen_[peer];
  Want again = want;
  again.looks = seen.last.looks;
  if (seen.since != wait.since || again != seen.last)
    seen = {wait.since, want};
  else if (want.looks != seen.last.looks)
    seen = {wait.since, want, seen.times + 1};
  return seen.times >= kEnoughLooks;
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

void CallAgreement::refuse_message(int peer, const Want& want) const {
  const Transfer theirs{want.of == Want::Of::receive ? Transfer::Way::send : Transfer::Way::receive, nullptr,
                        want.bytes, rank_, static_cast<std::int64_t>(want.tag)};
  const auto note = mine_.find(sequence_);
  throw MismatchError("the ranks have made different calls, and neither can end: " +
                      in_order(peer,
                               "rank " + std::to_string(rank_) + " calls " + (note ? note->text.data() : "") +
                                   " (call " + std::to_string(sequence_) + " of this communicator)",
                               "rank " + std::to_string(peer) + " calls " + describe(theirs) + " (before its call " +
                                   std::to_string(want.call + 1) + ")"));
}

}  // namespace lanecast
