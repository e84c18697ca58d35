// SPDX-License-Identifier: Apache-2.0
// Files of what was learned: a support vector machine for each collective, and the scope that it holds for. And of what
// is pinned.
#include <algorithm>
#include <set>

#include "algorithms/algorithms.h"
#include "profiles/json_field.h"
#include "profiles/profile_file.h"
#include "select/peer_engines.h"

namespace lanecast {
namespace {

/// Of the ranks of a job that this model holds for: levels above the innermost domains.
int levels_of(const std::string& node) {
  return node.empty() ? 0 : static_cast<int>(std::ranges::count(node, 'x')) + 1;
}

/// Up to four sizes of up to four digits, such as 4x2.
bool is_node(std::string_view rest) {
  for (int sizes = 1; sizes <= 4; ++sizes) {
    const std::string_view size = rest.substr(0, rest.find('x'));
    if (size.empty() || size.size() > 4 || size[0] == '0' || size.find_first_not_of("0123456789") != size.npos)
      return false;
    if (size.size() == rest.size()) return true;
    rest.remove_prefix(size.size() + 1);
  }
  return false;
}

std::string node_in(const JsonField& scope) {
  const std::string node = scope["node"].text();
  if (!node.empty() && !is_node(node)) scope["node"].refuse(scope["node"].str() + "; expected sizes such as 4x2");
  return node;
}

void check_scope(const JsonField& scope) {
  scope.has_only(
      {"machine", "origin", "node", "cores", "transports", "lanecast", "one_host", "digest", "gpu", "calls"});
  for (const char* name : {"machine", "transports", "lanecast"}) static_cast<void>(scope[name].text());
  static_cast<void>(scope["cores"].whole());
  if (scope.has("one_host")) static_cast<void>(scope["one_host"].truth());
  for (const char* name : {"digest", "gpu", "calls"})
    if (scope.has(name)) static_cast<void>(scope[name].text());
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

/// Of calls on GPUs of one host classes are engines; takes_engine: those that take the collective.
void check_class(const JsonField& name, Kind kind, const std::set<std::string>* algorithms) {
  if (algorithms != nullptr) {
    if (!algorithms->contains(name.text())) name.refuse(name.str() + " is none of this Lanecast's");
    return;
  }
  const std::optional<PeerEngine> engine = peer_engine_from(name.text());
  if (!engine || !takes(*engine, {.kind = kind, .symmetric = true, .nccl = true, .chained = true}))
    name.refuse(name.str() + " is no way of this Lanecast's among the GPUs of a host");
}

bool is_of_one_host(const JsonField& scope) { return scope.has("one_host") && scope["one_host"].truth(); }

std::string gpu_in(const JsonField& scope) { return scope.has("gpu") ? scope["gpu"].text() : std::string(); }

WayCalls calls_in(const JsonField& trained) {
  WayCalls calls;
  if (!trained.has("calls")) return calls;
  for (const JsonField& word : trained["calls"].items()) {
    const auto is_it = [&](const WayWord& each) { return each.word == word.text(); };
    const auto* const known = std::ranges::find_if(kWayWords, is_it);
    if (known == kWayWords.end()) word.refuse(word.str() + "; known: half, captured, symmetric, copy_engine, few_ctas");
    calls.*known->part = true;
  }
  return calls;
}

Learned trained_in(const JsonField& trained, const JsonField& scope) {
  trained.has_only({"collective", "features", "bytes", "ranks", "algorithms", "timed_on", "support", "mean", "scale",
                    "gamma", "vectors", "weights", "intercepts", "times", "calls"});
  const std::vector<std::string> known_features{"log2_bytes", "log2_ranks", "nodes_are_power_of_two"};
  if (trained["features"].texts() != known_features)
    trained["features"].refuse(trained["features"].str() + "; this Lanecast has " + joined(known_features, ", "));
  Learned learned;
  learned.kind = kind_in(trained["collective"]);
  const bool of_engines = !gpu_in(scope).empty() && is_of_one_host(scope);
  const std::set<std::string> known = known_algorithms(learned.kind, levels_of(node_in(scope)));
  for (const JsonField& name : trained["algorithms"].items()) {
    check_class(name, learned.kind, of_engines ? nullptr : &known);
    learned.algorithms.push_back(name.text());
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

Models model_from(const JsonField& file) {
  file.has_only({"lanecast_model", "scope", "collectives", "about"});
  const JsonField scope = file["scope"];
  check_scope(scope);
  GpuModel on_gpus{gpu_in(scope), {}, is_of_one_host(scope), {}};
  for (const JsonField& trained : file["collectives"].items()) {
    on_gpus.ways.push_back({calls_in(trained), trained_in(trained, scope)});
    const auto is_twin = [&, &last = on_gpus.ways.back()](const GpuModel::Way& other) {
      return other.machine.kind == last.machine.kind && other.calls == last.calls;
    };
    if (std::ranges::count_if(on_gpus.ways, is_twin) > 1)
      trained["collective"].refuse(trained["collective"].str() + " is there twice");
  }
  if (on_gpus.ways.empty()) file["collectives"].refuse("none");
  if (file.has("about")) file["about"].is_table_of_texts();
  Models models;
  if (!on_gpus.gpu.empty()) {
    models.gpu_models.push_back(std::move(on_gpus));
    return models;
  }
  for (GpuModel::Way& way : on_gpus.ways) models.learned.push_back(std::move(way.machine));
  return models;
}

std::string scope_differences(const JsonField& file, const JobShape& here) {
  const JsonField scope = file["scope"];
  std::string found;
  const auto compare = [&](const char* name, const std::string& theirs, const std::string& mine) {
    if (theirs != mine) found += std::string(found.empty() ? "" : "; ") + name + ": " + theirs + ", not " + mine;
  };
  const std::string node = node_in(scope);
  const bool on_gpus = !gpu_in(scope).empty(), of_engines = on_gpus && is_of_one_host(scope);
  if (!of_engines && node_of(here.topology) != node && here.topology != node)
    found = "topology: nodes of " + (node.empty() ? "one level" : node) + ", not " + here.topology;
  if (scope["origin"].text() != "measured") return found;
  if (!of_engines && here.topology.find('+') != std::string::npos) return "topology: equal nodes, not " + here.topology;
  compare("machine", scope["machine"].text(), here.cpu);
  if (!on_gpus) compare("cores", std::to_string(scope["cores"].whole()), std::to_string(here.cores));
  compare("one_host", is_of_one_host(scope) ? "true" : "false", here.hosts == 1 ? "true" : "false");
  if (!of_engines) compare("transports", scope["transports"].text(), joined(here.transports, ","));
  compare("lanecast", scope["lanecast"].text(), here.lanecast);
  return found;
}

}  // namespace lanecast
