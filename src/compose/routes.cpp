// SPDX-License-Identifier: Apache-2.0
#include "compose/routes.h"

#include <algorithm>

namespace lanecast {

LeafPlaces::LeafPlaces(std::span<const int> ranks, const Hierarchy& hierarchy)
    : all_(static_cast<int>(ranks.size()) == hierarchy.size()) {
  if (all_) return;
  for (const int rank : ranks) places_.push_back(hierarchy.place(rank));
  std::sort(places_.begin(), places_.end());
}

int LeafPlaces::count(RowRun run) const {
  if (all_) return run.size();
  const auto first = std::lower_bound(places_.begin(), places_.end(), run.first);
  return static_cast<int>(std::lower_bound(first, places_.end(), run.last) - first);
}

void Routes::append(const Spread& spread) {
  for (std::size_t k = 0; k < spread.owners.size(); ++k) {
    const Stripe stripe{spread, static_cast<std::int32_t>(k)};
    const int owner = spread.owners[k];
    hop(stripe, 0, spread.root, owner, false);
    if (machine_.ring_level < 0)
      tree(stripe, owner, row_.run(owner, -1), 0);
    else
      chain(stripe, owner);
  }
}

int Routes::counterpart(const Stripe& stripe, int from, RowRun target, int level) const {
  int place = Hierarchy::same_lane(from, row_.run(from, level), target);
  RowRun around = target;
  for (int k = level + 1; k < row_.levels(); ++k) {
    const RowRun here = row_.run(place, k);
    RowRun there = here;
    for (int first = around.first; !stripe.spread.reaches(there) && first < around.last; first = there.last)
      there = row_.run(first, k);
    place = Hierarchy::same_lane(place, here, there);
    around = there;
  }
  return place;
}

void Routes::chain(const Stripe& stripe, int owner) {
  const int inside = machine_.ring_level + 1;
  const RowRun home = row_.run(owner, machine_.ring_level);
  tree(stripe, owner, home, inside);
  int holder = owner, hops = 0;
  RowRun before = home;
  for (int first = home.last % row_.size(); first != home.first;) {
    const RowRun run = row_.run(first, machine_.ring_level);
    first = run.last % row_.size();
    if (!stripe.spread.reaches(run)) continue;
    const int next = counterpart(stripe, owner, run, machine_.ring_level);
    hop(stripe, ++hops, holder, next, stripe.spread.reaches(before));
    tree(stripe, next, run, inside);
    holder = next;
    before = run;
  }
}

void Routes::tree(const Stripe& stripe, int from, RowRun run, int level) {
  if (level > row_.levels() || !run.has(me_)) return;
  const RowRun own = row_.run(from, level), mine = row_.run(me_, level);
  if (me_ != from) {
    if (own.has(me_)) return tree(stripe, from, own, level + 1);
    return branch(stripe, from, mine, level);
  }
  for (int first = run.first; first < run.last;) {
    const RowRun target = row_.run(first, level);
    first = target.last;
    if (!target.has(from)) branch(stripe, from, target, level);
  }
  tree(stripe, from, own, level + 1);
}

void Routes::branch(const Stripe& stripe, int from, RowRun target, int level) {
  if (!stripe.spread.reaches(target)) return;
  const int child = counterpart(stripe, from, target, level);
  if (me_ == from || me_ == child) hop(stripe, stage_of(level), from, child, adds(stripe, from, child, level));
  tree(stripe, child, target, level + 1);
}

bool Routes::adds(const Stripe& stripe, int parent, int child, int level) const {
  const Spread& spread = stripe.spread;
  const RowRun own = row_.run(parent, level);
  if (!spread.reduces) return false;
  if (spread.reaches(own)) return true;
  // Children of one level come in the order of their messages.
  const RowRun around = row_.run(parent, level - 1);
  const int round = round_of(child, parent, row_.size());
  for (int first = around.first; first < around.last;) {
    const RowRun other = row_.run(first, level);
    first = other.last;
    if (other.has(parent) || !spread.reaches(other)) continue;
    if (round_of(counterpart(stripe, parent, other, level), parent, row_.size()) < round) return true;
  }
  return false;
}

void Routes::hop(const Stripe& stripe, int stage, int parent, int child, bool adds) {
  const Spread& spread = stripe.spread;
  if (parent == child || (me_ != parent && me_ != child)) return;
  if (!spread.reduces && child == spread.root) return;  // which has it
  Hop hop{stage, parent, child, spread.primitive, stripe.number, spread.reduces && adds, 0};
  if (spread.reduces) hop = {machine_.stages() - 1 - stage, child, parent, spread.primitive, stripe.number, adds, 0};
  hop.order = static_cast<std::uint32_t>(hops_.size());
  hops_.push_back(hop);
}

}  // namespace lanecast
