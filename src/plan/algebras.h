// SPDX-License-Identifier: Apache-2.0
// What a proof may follow through a plan in the place of numbers.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "base/mix.h"
#include "plan/collective.h"
#include "plan/fraction.h"

namespace lanecast {

inline constexpr std::uint64_t kPrime = (1ull << 61) - 1;

/// One random number below the prime for each rank.
inline std::vector<std::uint64_t> random_origins(int ranks) {
  std::mt19937_64 random(20240229);  // NOLINT(bugprone-random-generator-seed): a proof is to be repeatable
  std::vector<std::uint64_t> origins(ranks);
  for (std::uint64_t& origin : origins) origin = random() % (kPrime - 1) + 1;
  return origins;
}

/// A value is the multiset of ranks that contributed to it, kept as the sum of their random numbers modulo the prime: a
/// sum, since xor would let a contribution counted twice cancel.
class Fingerprints {
 public:
  using Value = std::uint64_t;
  explicit Fingerprints(int ranks) : origins_(random_origins(ranks)), all_(reduce(origins_)) {}

  static Value reduce(std::span<const Value> sources) {
    Value sum = 0;
    for (Value value : sources) {
      sum += value;
      if (sum >= kPrime) sum -= kPrime;
    }
    return sum;
  }
  static Value by_library(std::span<const Value> sources) { return reduce(sources); }
  /// What another operator has made, as one contribution among others.
  static Value closed(Value value, std::int8_t op, std::uint32_t divisor) {
    return mix(mix(value, static_cast<std::uint64_t>(op)), divisor) % kPrime;
  }
  Value of(int rank) const { return origins_[rank]; }
  Value of(PartRange ranks) const { return ranks.count == 1 ? origins_[ranks.first] : all_; }

 private:
  std::vector<Value> origins_;
  Value all_;
};

/// A value is the multiset itself, slower by the number of ranks.
struct ExactSets {
  using Value = std::map<int, int>;  // rank → times

  static Value reduce(std::span<const Value> sources) {
    Value sum;
    for (const Value& source : sources)
      for (const auto& [rank, times] : source) sum[rank] += times;
    return sum;
  }
  static Value by_library(std::span<const Value> sources) { return reduce(sources); }
  /// As a rank that does not exist, since this is for people only.
  static Value closed(const Value& /*value*/, std::int8_t op, std::uint32_t /*divisor*/) { return {{-1 - op, 1}}; }
  static Value of(int rank) { return {{rank, 1}}; }
  static Value of(PartRange ranks) {
    Value all;
    for (int r = ranks.first; r < ranks.first + ranks.count; ++r) all[r] = 1;
    return all;
  }
};

/// A value is the tree of reductions that made it, kept as a polynomial of its branches at a random point: which values
/// a step reduced, in which order, and with which others in the same step, as only that is rounded once.
class Expressions {
 public:
  using Value = std::uint64_t;
  explicit Expressions(int ranks) : origins_(random_origins(ranks)), in_rank_order_(reduce(origins_)) {}

  static Value reduce(std::span<const Value> sources) {
    if (sources.size() == 1) return sources[0];  // a copy
    Value tree = kStep;
    for (Value value : sources) tree = static_cast<Value>((static_cast<Wide>(tree) * kPoint + value) % kPrime);
    return tree;
  }
  /// Nobody knows in which order a library adds: equal to no other value.
  static Value by_library(std::span<const Value> /*sources*/) { return kPrime; }
  /// Only compositions have several operators, and none of them is reproducible.
  static Value closed(Value value, std::int8_t /*op*/, std::uint32_t /*divisor*/) { return value; }
  Value of(int rank) const { return origins_[rank]; }
  Value of(PartRange ranks) const { return ranks.count == 1 ? origins_[ranks.first] : in_rank_order_; }

 private:
  static constexpr Value kStep = 0x0b7e151628aed2a6;  // any two numbers below the prime
  static constexpr Value kPoint = 0x13198a2e03707344;
  std::vector<Value> origins_;
  Value in_rank_order_;
};

}  // namespace lanecast
