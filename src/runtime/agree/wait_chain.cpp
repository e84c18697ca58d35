// SPDX-License-Identifier: Apache-2.0
#include "runtime/agree/wait_chain.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

namespace lanecast {
namespace {

struct ChainLink {
  int rank;
  int awaited_by;  // link, -1: by the waiter itself
};

// As parts of the deadline. Ranks that wait say so every few milliseconds, so kSilentFor tells them from those that do
// not. A rank that is still to answer is waited for until kAtMost.
constexpr double kSilentFor = 0.5, kAtMost = 1.25;

constexpr std::size_t kNamed = 6;  // ranks of a long way that are named; a reason has room for some hundred letters

std::string text_of(const std::vector<ChainLink>& links, int last) {
  std::vector<int> way;  // back to the waiter
  for (int at = last; at >= 0; at = links[at].awaited_by) way.push_back(links[at].rank);
  std::reverse(way.begin(), way.end());
  std::string text = "rank " + std::to_string(way[0]);
  for (std::size_t k = 1; k < way.size(); ++k) {
    if (k == kNamed / 2 && way.size() > kNamed) {
      const std::size_t left_out = way.size() - kNamed;
      text += ", and so on past " + std::to_string(left_out) + " more to rank " + std::to_string(way[k + left_out]);
      k += left_out;
      continue;
    }
    text += (k == 1 ? " waits for rank " : ", which waits for rank ") + std::to_string(way[k]);
  }
  return text + (way.size() == 1 ? " has not answered" : ", which has not answered");
}

/// Whom the waiter waits for, by itself or through others that say that they wait: each once, nearest first. Ends where
/// `found`, which is told of each and what it says, returns true: at that link, or -1.
template <class Found>
std::pair<std::vector<ChainLink>, int> walk(Router& router, const Waiter& waiter, const Found& found) {
  std::vector<ChainLink> links;
  std::vector<bool> seen(waiter.size);
  seen[waiter.rank] = true;
  const auto follow = [&](std::span<const int> peers, int awaited_by) {
    for (const int peer : peers) {
      if (!seen[peer]) links.push_back({peer, awaited_by});
      seen[peer] = true;
    }
  };
  follow(waiter.awaited, -1);
  for (int k = 0; k < static_cast<int>(links.size()); ++k) {
    const int rank = links[k].rank;
    auto waiting = router.witness(rank).waiting(rank, waiter.silent_s);
    if (waiting) waiting->age_s = waiter.ran.seconds_of(waiting->age_s);
    if (found(rank, waiting)) return {std::move(links), k};
    if (waiting && waiting->age_s <= waiter.silent_s) follow(waiting->peers, k);
  }
  return {std::move(links), -1};
}

struct WaitChain {
  /// "rank 1 waits for rank 3, which has not answered": the shortest way to a rank that does not wait itself. Empty
  /// where no such rank can be seen from here, and where it is the one awaited rank.
  std::string text;
  bool open = false;  // some rank has been asked and may yet answer
};

WaitChain wait_chain(Router& router, const Waiter& waiter) {
  bool open = false;
  const auto [links, silent] = walk(router, waiter, [&](int, const std::optional<Waiting>& waiting) {
    open |= waiting && waiting->peers.empty();
    return waiting && waiting->age_s > waiter.silent_s;
  });
  if (silent < 0) return {{}, open};
  return {links.size() == 1 ? "" : text_of(links, silent), false};
}

}  // namespace

std::string names_of(std::span<const int> ranks) {
  std::string names;
  for (const int rank : ranks) names += (names.empty() ? "rank " : ", ") + std::to_string(rank);
  return names;
}

void end_at_deadline(Router& router, const LateWait& wait) {
  if (wait.waited_s < kAskFrom * wait.timeout_s) return;
  const WaitChain chain =
      wait_chain(router, {wait.rank, router.size(), wait.awaited, kSilentFor * wait.timeout_s, wait.ran});
  if (wait.waited_s < (chain.open ? kAtMost : 1) * wait.timeout_s) return;
  std::string peers = names_of(wait.awaited);
  if (peers.empty()) peers = "its own GPU";
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", wait.waited_s);
  throw TimeoutError("rank " + std::to_string(wait.rank) + " waited " + seconds + " s for " + peers + " in " +
                     wait.what() + (chain.text.empty() ? "" : "; ") + chain.text +
                     "; is that rank alive, and has it made the same call?");
}

bool waits_for(Router& router, const Waiter& waiter, int rank) {
  return walk(router, waiter, [&](int at, const std::optional<Waiting>&) { return at == rank; }).second >= 0;
}

}  // namespace lanecast
