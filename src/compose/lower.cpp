// SPDX-License-Identifier: Apache-2.0
#include "compose/lower.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "compose/routes.h"
#include "compose/step_values.h"

namespace lanecast {
namespace {

class Lowering {
 public:
  Lowering(const Composition& composition, const Machine& machine, PlanBuilder& plan)
      : composition_(composition),
        machine_(machine),
        row_(machine.hierarchy),
        plan_(plan),
        me_(row_.place(plan.rank())),
        values_(composition, plan) {}

  void run() {
    const auto& primitives = composition_.primitives();
    for (std::uint32_t first = 0; first < primitives.size();) {
      std::uint32_t last = first;
      while (last < primitives.size() && primitives[last].step == primitives[first].step) ++last;
      step(in_order(first, last));
      first = last;
    }
  }

 private:
  using Numbers = std::vector<std::uint32_t>;

  /// The primitives of a step in an order that does not depend on the one in which they were named.
  Numbers in_order(std::uint32_t first, std::uint32_t last) const {
    Numbers numbers;
    for (; first < last; ++first) numbers.push_back(first);
    const auto before = [](const Piece& a, const Piece& b) {
      if (a.part != b.part) return a.part < b.part;
      return a.lo == b.lo ? a.hi < b.hi : a.lo < b.lo;
    };
    std::sort(numbers.begin(), numbers.end(), [&](std::uint32_t i, std::uint32_t j) {
      const Primitive &a = composition_.primitives()[i], &b = composition_.primitives()[j];
      const auto x = composition_.pieces(a), y = composition_.pieces(b);
      if (std::ranges::lexicographical_compare(x, y, before)) return true;
      if (std::ranges::lexicographical_compare(y, x, before)) return false;
      if (std::tie(a.kind, a.root) != std::tie(b.kind, b.root))
        return std::tie(a.kind, a.root) < std::tie(b.kind, b.root);
      return std::ranges::lexicographical_compare(composition_.leaves(a), composition_.leaves(b));
    });
    return numbers;
  }

  const LeafPlaces& leaves_of(const Primitive& p) {
    return leaves_.try_emplace(p.leaves.first, composition_.leaves(p), row_).first->second;
  }

  std::vector<Spread> spreads(const Numbers& numbers) {
    std::vector<Spread> spreads;
    std::map<std::pair<int, bool>, std::set<int>> roots;  // that send out of a node, or get what comes in
    for (const std::uint32_t number : numbers) {
      const Primitive& p = composition_.primitives()[number];
      const int root = row_.place(p.root);
      spreads.push_back({number, p.kind == Primitive::Action::reduce, root, &leaves_of(p), {root}});
      if (machine_.stripe > 1 && goes_out(spreads.back()))
        roots[{row_.run(root, machine_.node_level).first, spreads.back().reduces}].insert(root);
    }
    if (machine_.stripe > 1)
      for (Spread& spread : spreads) {
        const Run node = row_.run(spread.root, machine_.node_level);
        const int stripes = std::min(machine_.stripe, node.size());
        // Where as many ranks of the node are roots, every lane is in use without stripes.
        if (!goes_out(spread) || static_cast<int>(roots[{node.first, spread.reduces}].size()) >= stripes) continue;
        spread.owners.clear();
        for (int k = 0; k < stripes; ++k)
          spread.owners.push_back(node.first + (spread.root - node.first + k * node.size() / stripes) % node.size());
      }
    return spreads;
  }

  bool goes_out(const Spread& spread) const {
    const Run node = row_.run(spread.root, machine_.node_level);
    return spread.leaves->count(row_.run(spread.root, -1)) > spread.leaves->count(node);
  }

  void step(const Numbers& numbers) {
    hops_.clear();
    stripes_.clear();
    Routes routes(machine_, me_, hops_);
    for (const Spread& spread : spreads(numbers)) {
      const std::size_t known = hops_.size();
      routes.append(spread);
      if (hops_.size() == known) continue;
      stripes_[spread.primitive] = static_cast<std::int32_t>(spread.owners.size());
      if (spread.root == me_ && spread.owners[0] == me_)
        ends_here_.push_back({spread.primitive, 0, stripes_[spread.primitive]});
    }
    for (const Hop& hop : hops_) values_.expect(stripe_of(hop));
    std::sort(hops_.begin(), hops_.end(),
              [&](const Hop& a, const Hop& b) { return std::tuple(key(a), a.order) < std::tuple(key(b), b.order); });
    for (auto first = hops_.begin(); first != hops_.end();) {
      const auto last = std::find_if(first, hops_.end(), [&](const Hop& hop) { return key(hop) != key(*first); });
      for (const auto& message : messages({first, last})) send_or_receive(message);
      first = last;
    }
    for (const StripeOf& stripe : ends_here_) values_.divide(stripe, stage(machine_.stages() - 1));
    ends_here_.clear();
    values_.fence();
    ++step_;
  }

  StripeOf stripe_of(const Hop& hop) const { return {hop.primitive, hop.stripe, stripes_.at(hop.primitive)}; }

  /// Of what may be one message, and in which order, equal on both sides.
  std::tuple<int, int, int, int> key(const Hop& hop) const {
    const int op = hop.adds ? 1 + static_cast<int>(composition_.primitives()[hop.primitive].op) : 0;
    return {hop.stage, round_of(hop.from, hop.to, row_.size()), hop.from, op};
  }

  /// A message names a piece once, so that of several values of a piece each goes in a message of its own.
  std::vector<std::vector<Hop>> messages(std::span<const Hop> hops) const {
    if (hops.size() == 1) return {{hops[0]}};
    std::vector<std::vector<Hop>> messages;
    std::unordered_map<std::int32_t, IntervalMap<std::size_t>> next;  // message that may take the piece
    for (const Hop& hop : hops) {
      const StripeOf stripe = stripe_of(hop);
      const auto all = composition_.pieces(composition_.primitives()[hop.primitive]);
      Pieces pieces(all.begin(), all.end());
      if (stripe.count > 1) pieces = cut(pieces, stripe.number, stripe.count);
      std::size_t number = 0;
      for (const Piece& p : pieces) {
        auto& map = next.try_emplace(p.part, std::size_t{0}).first->second;
        const auto [first, last] = map.span(p.lo, p.hi);
        for (std::size_t k = first; k < last; ++k) number = std::max(number, map[k]);
      }
      for (const Piece& p : pieces) next.at(p.part).assign(p.lo, p.hi, number + 1);
      if (number == messages.size()) messages.emplace_back();
      messages[number].push_back(hop);
    }
    return messages;
  }

  void send_or_receive(const std::vector<Hop>& message) {
    const Hop& one = message.front();
    const bool sends = one.from == me_;
    Blocks src, dst;
    for (const Hop& hop : message) {
      const StripeOf stripe = stripe_of(hop);
      if (sends && hop.stage == machine_.stages() - 1)
        values_.divide(stripe, stage(hop.stage));  // the owner hands it in
      if (sends || hop.adds) append(src, values_.held(stripe));
      if (!sends) append(dst, values_.destination(stripe));
    }
    const StepKind kind = sends ? StepKind::send : one.adds ? StepKind::recv_reduce : StepKind::recv;
    Step& step = plan_.add(kind, row_.rank(sends ? one.to : one.from), src, dst);
    step.stage = stage(one.stage);
    if (kind == StepKind::recv_reduce) step.op = static_cast<std::int8_t>(composition_.primitives()[one.primitive].op);
  }

  static void append(Blocks& to, const Blocks& more) { to.insert(to.end(), more.begin(), more.end()); }
  std::int32_t stage(int within) const { return step_ * machine_.stages() + within; }

  const Composition& composition_;
  const Machine& machine_;
  const Hierarchy& row_;
  PlanBuilder& plan_;
  int me_;  // place
  StepValues values_;
  std::map<std::uint32_t, LeafPlaces> leaves_;  // by Primitive::leaves.first
  std::int32_t step_ = 0;
  std::vector<Hop> hops_;                                    // of the step
  std::unordered_map<std::uint32_t, std::int32_t> stripes_;  // of each primitive
  std::vector<StripeOf> ends_here_;                          // of which this rank is the owner and the root
};

}  // namespace

Plan lower(const std::shared_ptr<const Composition>& composition, int rank, const Machine& machine, bool in_place) {
  if (composition->size() != machine.topology.size())
    throw UsageError("composition: is for " + std::to_string(composition->size()) + " ranks, but there are " +
                     std::to_string(machine.topology.size()));
  composition->require_complete(rank);
  PlanBuilder plan(Collective{Kind::composition, composition->size(), in_place, 0, false, composition}, rank);
  Lowering(*composition, machine, plan).run();
  return plan.finish(machine.str());
}

}  // namespace lanecast
