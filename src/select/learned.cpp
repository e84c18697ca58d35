// SPDX-License-Identifier: Apache-2.0
#include "select/learned.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "base/error.h"
#include "select/choose.h"
#include "select/cost.h"

namespace lanecast {
namespace {

constexpr std::string_view kRecursive = "recursive_doubling", kBruck = "bruck";

/// The class's name as this request can take it; empty: it cannot.
std::string as_valid(std::string name, const std::vector<std::string>& valid) {
  const auto is_valid = [&] { return std::ranges::count(valid, name) > 0; };
  if (is_valid()) return name;
  for (std::size_t at; (at = name.find(kRecursive)) != std::string::npos;) name.replace(at, kRecursive.size(), kBruck);
  return is_valid() ? name : std::string();
}

bool covers(const Learned& learned, const Request& request, int ranks) {
  return learned.kind == request.kind && learned.least_bytes <= request.bytes && request.bytes <= learned.most_bytes &&
         learned.least_ranks <= ranks && ranks <= learned.most_ranks;
}

}  // namespace

Features features_of(std::size_t bytes, int ranks, int nodes) {
  constexpr double kParts = 256;  // of a doubling: sizes that are rounded up to whole elements are to be one value
  return {std::round(std::log2(static_cast<double>(bytes)) * kParts) / kParts, std::log2(ranks),
          std::has_single_bit(static_cast<unsigned>(nodes)) ? 1.0 : 0.0};
}

void check(const Learned& learned) {
  try {
    check(learned.svm);
    if (learned.algorithms.size() != learned.svm.support.size())
      throw UsageError("classes: " + std::to_string(learned.algorithms.size()) + " names, expected " +
                       std::to_string(learned.svm.support.size()));
    if (learned.timed_on.size() != learned.algorithms.size())
      throw UsageError("timed_on: " + std::to_string(learned.timed_on.size()) + " ranges, expected " +
                       std::to_string(learned.algorithms.size()));
    if (!learned.times.empty() && learned.times.size() != learned.algorithms.size())
      throw UsageError("times: " + std::to_string(learned.times.size()) + " lists, expected " +
                       std::to_string(learned.algorithms.size()));
    for (const auto& each : learned.times)
      if (!std::ranges::is_sorted(each, {}, [](const TimedCall& call) { return std::pair(call.ranks, call.bytes); }))
        throw UsageError("times: not by ranks and bytes");
    if (learned.least_bytes < 1 || learned.least_ranks < 1) throw UsageError("bytes, ranks: must be 1 or more");
  } catch (const UsageError& error) {
    throw UsageError("model of " + std::string(name_of(learned.kind)) + ": " + error.what());
  }
}

std::optional<Answer> ask(const Models& models, const Request& request, const Topology& topology) {
  for (const Learned& learned : models.learned)
    if (covers(learned, request, topology.size()))
      return ask(learned, request, topology, valid_algorithms(request, topology));
  return {};
}

std::optional<Answer> ask(const Learned& learned, const Request& request, const Topology& topology,
                          const std::vector<std::string>& valid) {
  // Calls in rank order take other times.
  if (request.reproducible || !covers(learned, request, topology.size())) return {};
  std::vector<std::string> names;
  std::vector<bool> allowed;
  for (std::size_t k = 0; k < learned.algorithms.size(); ++k) {
    names.push_back(as_valid(learned.algorithms[k], valid));
    const auto& [fewest, most] = learned.timed_on[k];
    allowed.push_back(!names.back().empty() && fewest <= topology.size() && topology.size() <= most);
  }
  const Features features = features_of(request.bytes, topology.size(), largest_groups(topology)[0]);
  const int best = vote(learned.svm, features, allowed);
  if (best < 0) return {};
  const double seconds = learned.times.empty() ? 0 : timed_s(learned.times[best], request.bytes, topology.size());
  return Answer{names[best], seconds};
}

double timed_s(const std::vector<TimedCall>& times, std::size_t bytes, int ranks) {
  const auto between = [](double at, std::array<double, 2> from, std::array<double, 2> to) {
    const double share = to[0] > from[0] ? std::log(at / from[0]) / std::log(to[0] / from[0]) : 0;
    return from[1] * std::pow(to[1] / from[1], share);
  };
  const auto on = [&](std::span<const TimedCall> some) {  // on equally many ranks
    const auto above = std::ranges::lower_bound(some, bytes, {}, &TimedCall::bytes);
    if (above == some.end() || (above == some.begin() && above->bytes != bytes)) return 0.0;
    const TimedCall& below = above->bytes == bytes ? *above : *std::prev(above);
    return between(static_cast<double>(bytes), {static_cast<double>(below.bytes), below.seconds},
                   {static_cast<double>(above->bytes), above->seconds});
  };
  const auto some_on = [&](int count) {
    const auto found = std::ranges::equal_range(times, count, {}, &TimedCall::ranks);
    return std::span<const TimedCall>(found.begin(), found.end());
  };
  const auto more = std::ranges::lower_bound(times, ranks, {}, &TimedCall::ranks);
  if (more == times.end() || (more == times.begin() && more->ranks != ranks)) return 0;
  const int above = more->ranks, below = above == ranks ? above : std::prev(more)->ranks;
  const double fewer_s = on(some_on(below)), more_s = on(some_on(above));
  if (fewer_s == 0 || more_s == 0) return 0;
  return between(ranks, {static_cast<double>(below), fewer_s}, {static_cast<double>(above), more_s});
}

bool same_nodes(const Topology& one, const Topology& other) {
  const auto a = one.group_sizes(), b = other.group_sizes();
  if (a.size() != b.size()) return false;
  for (std::size_t k = 1; k < a.size(); ++k) {  // but for the number of nodes
    const auto is_usual = [&](std::size_t size) { return size == a[k][0]; };
    if (!std::ranges::all_of(a[k], is_usual) || !std::ranges::all_of(b[k], is_usual)) return false;
  }
  return true;
}

}  // namespace lanecast
