// SPDX-License-Identifier: Apache-2.0
// Follows every value through the run of the strictest executor. A value is the multiset of ranks that contributed to
// it, kept as the sum, modulo the prime 2^61 − 1, of one random number per rank: a sum, since xor would let a
// contribution counted twice cancel. Where a sum is wrong, the run is repeated for that one place with exact sets, to
// name the culprits.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <unordered_map>

#include "plan/interval_map.h"
#include "plan/verify.h"

namespace lanecast {
namespace {

/// Values as fingerprints.
struct Fingerprints {
  using Value = std::uint64_t;
  static constexpr std::uint64_t kPrime = (1ull << 61) - 1;

  explicit Fingerprints(int ranks) {
    std::mt19937_64 random(20240229);  // NOLINT(bugprone-random-generator-seed): a proof is to be repeatable
    for (int r = 0; r < ranks; ++r) origin.push_back(random() % (kPrime - 1) + 1);
    for (std::uint64_t value : origin) sum_of_all = add(sum_of_all, value);
  }
  static Value add(Value a, Value b) { return (a + b) % kPrime; }
  Value of(int rank) const { return origin[rank]; }
  Value of(PartRange ranks) const { return ranks.count == 1 ? origin[ranks.first] : sum_of_all; }

  std::vector<std::uint64_t> origin;
  std::uint64_t sum_of_all = 0;
};

/// Values as exact multisets, slower by the number of ranks.
struct ExactSets {
  using Value = std::map<int, int>;  // rank → times
  static Value add(Value a, const Value& b) {
    for (const auto& [rank, times] : b) a[rank] += times;
    return a;
  }
  static Value of(int rank) { return {{rank, 1}}; }
  static Value of(PartRange ranks) {
    Value all;
    for (int r = ranks.first; r < ranks.first + ranks.count; ++r) all[r] = 1;
    return all;
  }
};

template <class Algebra>
class Flow {
 public:
  using Value = Algebra::Value;

  Flow(const std::vector<Plan>& plans, Algebra algebra, std::optional<Piece> only = {})
      : plans_(plans), algebra_(std::move(algebra)), only_(only), memory_(plans.size()) {}

  void happens(int rank, std::uint32_t i, const Matching& matching) {
    const Plan& plan = plans_[rank];
    const Step& step = plan.steps[i];
    switch (step.kind) {
      case StepKind::copy:
        return write(rank, i, read(rank, i));
      case StepKind::reduce:
        return write(rank, i, sum(rank, i, {read(rank, i)}));
      case StepKind::group:
        return group(rank, matching.calls[matching.partner[rank][i]], plan.groups[step.group]);
      default: {
        Readings message = read(step.peer, matching.partner[rank][i]);
        if (step.kind == StepKind::recv) return write(rank, i, std::move(message));
        return write(rank, i, sum(rank, i, {std::move(message), read(rank, i)}));
      }
    }
  }

  /// First output place whose value is not what the collective promises.
  struct Wrong {
    int rank;
    Piece piece;
    Value value, expected;
    bool divided;
    std::uint32_t step;  // that wrote it
  };
  std::optional<Wrong> first_wrong() {
    for (const Plan& plan : plans_) {
      const PartRange outputs = plan.collective.outputs(plan.rank);
      for (std::int32_t k = 0; k < outputs.count; ++k) {
        const std::int32_t part = outputs[k];
        const Block whole_part{kOut, part, kZero, kOne};
        const Value expected = algebra_.of(plan.collective.contributors(part));
        const bool divided = plan.collective.reduces() && plan.collective.size > 1;
        for (const Reading& r : look(plan.rank, whole_part))
          if (r.value.sum != expected || r.value.divided != divided)
            return Wrong{plan.rank, r.piece, r.value.sum, expected, r.value.divided, r.value.step};
      }
    }
    return {};
  }

 private:
  struct Content {
    bool written = false;
    bool divided = false;  // by a step that says it completes the sum
    std::uint32_t step = Matching::kNone;
    Value sum{};
  };
  struct Reading {
    Piece piece;
    Content value;
  };
  using Readings = std::vector<Reading>;

  IntervalMap<Content>& at(int rank, const Block& b) {
    const auto space = plans_[rank].collective.home(rank, b.space, b.part);
    const auto key = (std::int64_t{space} << 32) + b.part;
    const auto found = memory_[rank].find(key);
    if (found != memory_[rank].end()) return found->second;
    const bool brought = space == kIn && plans_[rank].collective.inputs(rank).has(b.part);
    return memory_[rank]
        .emplace(key, Content{brought, false, Matching::kNone, brought ? algebra_.of(rank) : Value{}})
        .first->second;
  }

  std::optional<Block> clipped(Block b) const {
    if (!only_) return b;
    if (b.part != only_->part || b.hi <= only_->lo || only_->hi <= b.lo) return {};
    b.lo = std::max(b.lo, only_->lo);
    b.hi = std::min(b.hi, only_->hi);
    return b;
  }

  Readings look(int rank, const Block& whole_block) {
    Readings readings;
    const auto b = clipped(whole_block);
    if (!b) return readings;
    auto& map = at(rank, *b);
    const auto [first, last] = map.span(b->lo, b->hi);
    for (std::size_t k = first; k < last; ++k) readings.push_back({{b->part, map.lo(k), map.hi(k)}, map[k]});
    return readings;
  }

  Readings read(int rank, std::uint32_t i) {
    Readings readings;
    for (const Block& b : plans_[rank].src(plans_[rank].steps[i]))
      for (Reading& r : look(rank, b)) {
        if (!r.value.written) throw PlanError(where(rank, i) + ": reads " + describe(b) + " before anything is there");
        readings.push_back(std::move(r));
      }
    return readings;
  }

  std::string where(int rank, std::uint32_t i) const {
    return "rank " + std::to_string(rank) + " " + describe(plans_[rank], i);
  }

  /// Several readings of the same pieces, added.
  Readings sum(int rank, std::uint32_t i, const std::vector<Readings>& sources) {
    const Step& step = plans_[rank].steps[i];
    std::map<std::int32_t, IntervalMap<Content>> total;
    for (const Readings& source : sources)
      for (const Reading& r : source) {
        if (r.value.divided) throw PlanError(where(rank, i) + ": adds to a complete sum");
        auto& map = total.try_emplace(r.piece.part, Content{}).first->second;
        const auto [first, last] = map.span(r.piece.lo, r.piece.hi);
        for (std::size_t k = first; k < last; ++k)
          map[k] = {true, step.completes, i, map[k].written ? Algebra::add(map[k].sum, r.value.sum) : r.value.sum};
      }
    Readings readings;
    for (auto& [part, map] : total)
      for (std::size_t k = 0; k < map.size(); ++k)
        if (map[k].written) readings.push_back({{part, map.lo(k), map.hi(k)}, map[k]});
    return readings;
  }

  void write(int rank, std::uint32_t i, const Readings& readings) {
    std::vector<Block> blocks;
    const Plan& plan = plans_[rank];
    for (const Block& b : plan.dst(plan.steps[i]))
      if (const auto part = clipped(b)) blocks.push_back(*part);
    const auto before = [](const Block& a, const Block& b) { return a.part != b.part ? a.part < b.part : a.lo < b.lo; };
    std::sort(blocks.begin(), blocks.end(), before);
    for (const Reading& r : readings) {
      auto b = std::upper_bound(blocks.begin(), blocks.end(), Block{0, r.piece.part, r.piece.lo, kOne}, before);
      if (b != blocks.begin()) --b;
      for (; b != blocks.end() && b->part <= r.piece.part; ++b) {
        if (b->part < r.piece.part) continue;
        if (r.piece.hi <= b->lo) break;
        const Fraction lo = std::max(b->lo, r.piece.lo), hi = std::min(b->hi, r.piece.hi);
        if (!(lo < hi)) continue;
        Content value = r.value;
        value.step = i;
        at(rank, *b).assign(lo, hi, std::move(value));
      }
    }
  }

  void group(int rank, const Matching::Call& call, const Group& group) {
    std::vector<Readings> shares;
    for (std::size_t k = 0; k < group.ranks.size(); ++k) {
      const Plan& plan = plans_[group.ranks[k]];
      shares.push_back(read(plan.rank, call.step[k]));
    }
    Readings result;
    if (!reduces(group.kind))
      for (const Readings& share : shares) result.insert(result.end(), share.begin(), share.end());
    else
      result = sum(rank, call.step[0], shares);
    for (std::size_t k = 0; k < group.ranks.size(); ++k) {
      const Plan& plan = plans_[group.ranks[k]];
      if (reduces(group.kind))
        for (Reading& r : result) r.value.divided = plan.steps[call.step[k]].completes;
      write(plan.rank, call.step[k], result);
    }
  }

  const std::vector<Plan>& plans_;
  Algebra algebra_;
  std::optional<Piece> only_;
  std::vector<std::unordered_map<std::int64_t, IntervalMap<Content>>> memory_;
};

std::string text(const std::map<int, int>& set) {
  std::string all = "{";
  for (const auto& [rank, times] : set)
    all += (all.size() > 1 ? ", " : "") + std::to_string(rank) + (times > 1 ? " ×" + std::to_string(times) : "");
  return all + "}";
}

}  // namespace

void check_contributions(const std::vector<Plan>& plans) {
  const Matching matching = match(plans);
  Flow<Fingerprints> flow(plans, Fingerprints(static_cast<int>(plans.size())));
  const std::string stuck =
      simulate(plans, matching, UINT32_MAX, [&](int rank, std::uint32_t i) { flow.happens(rank, i, matching); });
  if (!stuck.empty()) throw PlanError(stuck);
  const auto wrong = flow.first_wrong();
  if (!wrong) return;

  const Plan& plan = plans[wrong->rank];
  const std::string rank = "rank " + std::to_string(wrong->rank);
  const std::string output = "output " + describe(wrong->piece) + " of " + std::string(name_of(plan.collective.kind)) +
                             " by " + plan.algorithm;
  if (wrong->step == Matching::kNone) throw PlanError(rank + ": no step writes " + output);
  const std::string where = rank + " " + describe(plan, wrong->step) + ": leaves " + output;
  if (wrong->value == wrong->expected)
    throw PlanError(where + (wrong->divided ? " divided for an average, but it is no sum"
                                            : " without saying that the sum is complete, so an average never divides"));
  Flow<ExactSets> exact(plans, ExactSets{}, wrong->piece);
  simulate(plans, matching, UINT32_MAX, [&](int r, std::uint32_t i) { exact.happens(r, i, matching); });
  const auto place = exact.first_wrong();
  throw PlanError(where + " with contributions of ranks " + (place ? text(place->value) : "unknown") + ", expected " +
                  text(ExactSets::of(plan.collective.contributors(wrong->piece.part))));
}

}  // namespace lanecast
