// SPDX-License-Identifier: Apache-2.0
// Files of what was learned: a support vector machine for each collective, and the scope that it holds for. And of what
// is pinned.
#include <algorithm>
#include <regex>
#include <set>

#include "algorithms/algorithms.h"
#include "profiles/json_field.h"
#include "profiles/profile_file.h"

namespace lanecast {
namespace {

/// Of the ranks of a job that this model holds for: levels above the innermost domains.
int levels_of(const std::string& node) {
  return node.empty() ? 0 : static_cast<int>(std::ranges::count(node, 'x')) + 1;
}

std::string node_in(const JsonField& scope) {
  static const std::regex kNode("[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){0,3}");
  const std::string node = scope["node"].text();
  if (!node.empty() && !std::regex_match(node, kNode))
    scope["node"].refuse(scope["node"].str() + "; expected sizes such as 4x2");
  return node;
}

void check_scope(const JsonField& scope) {
  scope.has_only({"machine", "origin", "node", "cores", "transports", "lanecast", "one_host", "digest"});
  for (const char* name : {"machine", "transports", "lanecast"}) static_cast<void>(scope[name].text());
  static_cast<void>(scope["cores"].whole());
  if (scope.has("one_host")) static_cast<void>(scope["one_host"].truth());
  if (scope.has("digest")) static_cast<void>(scope["digest"].text());
  const std::string origin = scope["origin"].text();
  if (origin != "measured" && origin != "simulated" && origin != "modelled")
    scope["origin"].refuse(scope["origin"].str() + "; known: measured, simulated, modelled");
  static_cast<void>(node_in(scope));
}

constexpr int kMostPinnedLevels = 3;  // with more there are too many names to look through

Topology of_twos(int levels) {
  std::string shape = "2";
  for (int k = 0; k < levels; ++k) shape += "x2";
  return levels == 0 ? Topology(2) : Topology::parse(shape, 2 << levels);
}

/// Names that some job of this scope can take: several nodes, or one, whose levels are fewer.
std::set<std::string> known_algorithms(Kind kind, int levels) {
  std::set<std::string> known;
  for (int k = 0; k <= levels; ++k)
    for (std::string& name : algorithms_for(kind, of_twos(k))) known.insert(std::move(name));
  return known;
}

struct Bounds {
  std::int64_t least, most;
};

Bounds range_in(const JsonField& field, std::int64_t most) {
  const std::vector<JsonField> ends = field.items(2);
  const Bounds range{ends[0].whole(), ends[1].whole()};
  if (range.least < 1 || range.least > range.most || range.most > most)
    field.refuse("from " + ends[0].str() + " to " + ends[1].str() + ", expected within 1 to " + std::to_string(most));
  return range;
}

Features features_in(const JsonField& field) {
  const std::vector<double> numbers = field.numbers(kFeatures);
  Features features{};
  std::ranges::copy(numbers, features.begin());
  return features;
}

Svm svm_in(const JsonField& trained, std::size_t classes) {
  Svm svm;
  svm.mean = features_in(trained["mean"]);
  for (const JsonField& each : trained["scale"].items()) static_cast<void>(each.number());
  svm.scale = features_in(trained["scale"]);
  svm.gamma = trained["gamma"].number();
  for (const JsonField& count : trained["support"].items(classes)) {
    if (count.whole() < INT32_MIN || count.whole() > INT32_MAX) count.refuse("a count of more than 32 bits");
    svm.support.push_back(static_cast<int>(count.whole()));
  }
  for (const JsonField& vector : trained["vectors"].items()) svm.vectors.push_back(features_in(vector));
  for (const JsonField& row : trained["weights"].items(classes == 0 ? 0 : classes - 1))
    for (const double weight : row.numbers(svm.vectors.size())) svm.weights.push_back(weight);
  for (const JsonField& each : trained["intercepts"].items()) svm.intercepts.push_back(each.signed_number());
  return svm;
}

std::vector<TimedCall> times_in(const JsonField& calls) {
  std::vector<TimedCall> found;
  for (const JsonField& call : calls.items()) {
    const std::vector<JsonField> numbers = call.items(3);
    const std::int64_t ranks = numbers[0].whole(), bytes = numbers[1].whole();
    const double seconds = numbers[2].number();
    if (ranks < 1 || ranks > INT32_MAX || bytes < 1 || seconds == 0)
      call.refuse(call.str() + " is no number of ranks, of bytes and a time");
    found.push_back({static_cast<int>(ranks), static_cast<std::size_t>(bytes), seconds});
  }
  return found;
}

Learned trained_in(const JsonField& trained, int levels) {
  trained.has_only({"collective", "features", "bytes", "ranks", "algorithms", "timed_on", "support", "mean", "scale",
                    "gamma", "vectors", "weights", "intercepts", "times"});
  const std::vector<std::string> known_features{"log2_bytes", "log2_ranks", "nodes_are_power_of_two"};
  if (trained["features"].texts() != known_features)
    trained["features"].refuse(trained["features"].str() + "; this Lanecast has " + joined(known_features, ", "));
  Learned learned;
  learned.kind = kind_in(trained["collective"]);
  const std::set<std::string> known = known_algorithms(learned.kind, levels);
  for (const JsonField& name : trained["algorithms"].items()) {
    learned.algorithms.push_back(name.text());
    if (!known.contains(learned.algorithms.back())) name.refuse(name.str() + " is none of this Lanecast's");
  }
  const Bounds bytes = range_in(trained["bytes"], std::int64_t{1} << 48);
  const Bounds ranks = range_in(trained["ranks"], INT32_MAX);
  for (const JsonField& span : trained["timed_on"].items(learned.algorithms.size())) {
    const Bounds timed_on = range_in(span, INT32_MAX);
    learned.timed_on.push_back({static_cast<int>(timed_on.least), static_cast<int>(timed_on.most)});
  }
  learned.least_bytes = static_cast<std::size_t>(bytes.least);
  learned.most_bytes = static_cast<std::size_t>(bytes.most);
  learned.least_ranks = static_cast<int>(ranks.least);
  learned.most_ranks = static_cast<int>(ranks.most);
  learned.svm = svm_in(trained, learned.algorithms.size());
  if (trained.has("times"))
    for (const JsonField& calls : trained["times"].items()) learned.times.push_back(times_in(calls));
  try {
    check(learned);
  } catch (const UsageError& error) {
    trained.refuse(error.what());
  }
  return learned;
}

}  // namespace

std::string node_of(const std::string& topology) {
  const std::size_t x = topology.find('x');
  return topology.find('+') != std::string::npos || x == std::string::npos ? "" : topology.substr(x + 1);
}

std::vector<Pin> pins_from(const JsonField& file) {
  file.has_only({"lanecast_pins", "pins"});
  std::vector<Pin> pins;
  for (const JsonField& entry : file["pins"].items()) {
    entry.has_only({"collective", "bytes", "algorithm", "chunks"});
    Pin pin{.kind = kind_in(entry["collective"]), .algorithm = entry["algorithm"].text()};
    const auto levels = static_cast<int>(std::ranges::count(pin.algorithm, ','));
    if (levels > kMostPinnedLevels || !has_algorithm(pin.kind, of_twos(levels), pin.algorithm))
      entry["algorithm"].refuse(entry["algorithm"].str() + " is none of this Lanecast's");
    constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
    const Bounds bytes = entry.has("bytes") ? range_in(entry["bytes"], kMostBytes) : Bounds{0, kMostBytes};
    const std::int64_t chunks = entry.has("chunks") ? entry["chunks"].whole() : 0;
    if (chunks < 0 || chunks > kMostChunks)
      entry["chunks"].refuse(entry["chunks"].str() + ", expected 0 to " + std::to_string(kMostChunks));
    pin.least_bytes = static_cast<std::size_t>(bytes.least);
    pin.most_bytes = static_cast<std::size_t>(bytes.most);
    pin.chunks = static_cast<int>(chunks);
    pins.push_back(std::move(pin));
  }
  if (pins.empty()) file["pins"].refuse("none");
  return pins;
}

std::vector<Learned> model_from(const JsonField& file) {
  file.has_only({"lanecast_model", "scope", "collectives", "about"});
  check_scope(file["scope"]);
  std::vector<Learned> learned;
  for (const JsonField& trained : file["collectives"].items()) {
    learned.push_back(trained_in(trained, levels_of(node_in(file["scope"]))));
    const auto is_twin = [&](const Learned& other) { return other.kind == learned.back().kind; };
    if (std::ranges::count_if(learned, is_twin) > 1)
      trained["collective"].refuse(trained["collective"].str() + " is there twice");
  }
  if (learned.empty()) file["collectives"].refuse("none");
  if (file.has("about")) file["about"].is_table_of_texts();
  return learned;
}

std::string scope_differences(const JsonField& file, const JobShape& here) {
  const JsonField scope = file["scope"];
  std::string found;
  const auto compare = [&](const char* name, const std::string& theirs, const std::string& mine) {
    if (theirs != mine) found += std::string(found.empty() ? "" : "; ") + name + ": " + theirs + ", not " + mine;
  };
  const std::string node = node_in(scope);
  if (node_of(here.topology) != node && here.topology != node)
    found = "topology: nodes of " + (node.empty() ? "one level" : node) + ", not " + here.topology;
  if (scope["origin"].text() != "measured") return found;
  if (here.topology.find('+') != std::string::npos) return "topology: equal nodes, not " + here.topology;
  compare("machine", scope["machine"].text(), here.cpu);
  compare("cores", std::to_string(scope["cores"].whole()), std::to_string(here.cores));
  compare("one_host", scope.has("one_host") && scope["one_host"].truth() ? "true" : "false",
          here.hosts == 1 ? "true" : "false");
  compare("transports", scope["transports"].text(), joined(here.transports, ","));
  compare("lanecast", scope["lanecast"].text(), here.lanecast);
  return found;
}

}  // namespace lanecast
