// SPDX-License-Identifier: Apache-2.0
// All-reduce over two binary trees, each for half of the vector: up to the root adding, down again. Who is inside one
// tree is a leaf of the other, so every rank sends and receives the same.
//
// Up and down ⌊log2 n⌋ levels each, 3 ⌈log2 n⌉ rounds at most, that chunks fill like a pipeline; each rank sends the
// vector twice at most. Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction
// and scan"; as in NCCL.

#include "algorithms/algorithms.h"
#include "algorithms/group.h"

namespace lanecast {
namespace {

/// The binary tree over places 1, …, n that an in-order walk numbers: odd places are leaves.
struct Tree {
  int n;

  int parent(int place) const {
    const int bit = place & -place;
    const int up = (place ^ bit) | (bit << 1);
    return up <= n ? up : place ^ bit;  // 0: the root, which is the largest power of two
  }
  std::vector<int> children(int place) const {
    std::vector<int> found;
    for (int bit = (place & -place) / 2; bit > 0; bit /= 2)
      for (int child : {place - bit, place + bit})
        if (child <= n && parent(child) == place) found.push_back(child);
    return found;
  }
};

}  // namespace

void double_tree(PlanBuilder& plan, const Ranks& ranks, const Pieces& pieces) {
  const int n = static_cast<int>(ranks.size());
  if (n == 1) return;
  const Tree tree{n};
  const int me = index_of(plan.rank(), ranks);
  // The second tree is the first one mirrored or shifted, whichever makes odd places of even ones.
  const auto place_of = [n](int k, int t) { return t == 0 ? k + 1 : n % 2 == 0 ? n - k : (k + 1) % n + 1; };
  const auto rank_at = [&](int place, int t) {
    return ranks[t == 0 ? place - 1 : n % 2 == 0 ? n - place : wrap(place - 2, n)];
  };

  for (int t : {0, 1}) {
    const int place = place_of(me, t), parent = tree.parent(place);
    for (int child : tree.children(place)) plan.recv_reduce(rank_at(child, t), cut(pieces, t, 2));
    if (parent > 0)
      plan.send(rank_at(parent, t), cut(pieces, t, 2));
    else
      plan.complete(cut(pieces, t, 2));
  }
  for (int t : {0, 1}) {
    const int place = place_of(me, t), parent = tree.parent(place);
    if (parent > 0) plan.recv(rank_at(parent, t), cut(pieces, t, 2));
    for (int child : tree.children(place)) plan.send(rank_at(child, t), cut(pieces, t, 2));
  }
}

}  // namespace lanecast
