// SPDX-License-Identifier: Apache-2.0
#include "select/learned.h"

#include <algorithm>
#include <bit>
#include <cmath>

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
  return {std::log2(static_cast<double>(bytes)), std::log2(ranks),
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
    if (learned.least_bytes < 1 || learned.least_ranks < 1) throw UsageError("bytes, ranks: must be 1 or more");
  } catch (const UsageError& error) {
    throw UsageError("model of " + std::string(name_of(learned.kind)) + ": " + error.what());
  }
}

std::optional<std::string> ask(const Models& models, const Request& request, const Topology& topology) {
  if (request.reproducible) return {};  // such calls take other times
  for (const Learned& learned : models.learned) {
    if (!covers(learned, request, topology.size())) continue;
    const std::vector<std::string> valid = valid_algorithms(request, topology);
    std::vector<std::string> names;
    std::vector<bool> allowed;
    for (std::size_t k = 0; k < learned.algorithms.size(); ++k) {
      names.push_back(as_valid(learned.algorithms[k], valid));
      const auto& [fewest, most] = learned.timed_on[k];
      allowed.push_back(!names.back().empty() && fewest <= topology.size() && topology.size() <= most);
    }
    const Features features = features_of(request.bytes, topology.size(), largest_groups(topology)[0]);
    const int best = vote(learned.svm, features, allowed);
    return best < 0 ? std::nullopt : std::optional(names[best]);
  }
  return {};
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
