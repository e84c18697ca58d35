// SPDX-License-Identifier: Apache-2.0
// Files of what `lanecast tune --device cuda` has measured: the ways among the GPUs of a host.
#include <algorithm>

#include "profiles/json_field.h"
#include "profiles/profile_file.h"
#include "select/peer_engines.h"

namespace lanecast {
namespace {

std::string engine_in(const JsonField& field, Kind kind) {
  std::string name = field.text();
  if (const std::optional<PeerEngine> engine = peer_engine_from(name)) {
    if (!takes(*engine, {.kind = kind, .symmetric = true, .nccl = true, .chained = true}))
      field.refuse(field.str() + " has no such collective");
    return name;
  }
  std::string known;
  for (const std::string_view each : kPeerEngines) known.append(known.empty() ? "" : ", ").append(each);
  field.refuse(field.str() + "; known: " + known);
}

Fit fit_in(const JsonField& field) {
  field.has_only({"collective", "engine", "half", "from_bytes", "alpha_s", "beta_s_per_byte", "error"});
  static_cast<void>(field["error"].number());
  const std::int64_t from_bytes = field["from_bytes"].whole();
  if (from_bytes < 0) field["from_bytes"].refuse(field["from_bytes"].str() + " is negative");
  const Kind kind = kind_in(field["collective"]);
  return {kind,
          engine_in(field["engine"], kind),
          kAllRanks,
          static_cast<std::size_t>(from_bytes),
          field["alpha_s"].number(),
          field["beta_s_per_byte"].number(),
          field["half"].truth()};
}

}  // namespace

PeerFits peers_from(const JsonField& file) {
  file.has_only({"lanecast_gpu_profile", "shape", "fits", "measured"});
  const JsonField shape = file["shape"];
  shape.has_only({"lanecast", "cpu", "gpu", "ranks"});
  for (const char* name : {"lanecast", "cpu"}) static_cast<void>(shape[name].text());
  PeerFits found;
  found.gpu = shape["gpu"].text();
  if (found.gpu.empty()) shape["gpu"].refuse("names none");
  const std::int64_t ranks = shape["ranks"].whole();
  if (ranks < 2 || ranks > INT16_MAX) shape["ranks"].refuse(shape["ranks"].str() + ", expected 2 or more");
  found.ranks = static_cast<int>(ranks);
  for (const JsonField& each : file["fits"].items()) found.fits.push_back(fit_in(each));
  if (found.fits.empty()) file["fits"].refuse("none");
  for (const Fit& fit : found.fits) {
    const auto is_kernels = [&](const Fit& other) {
      return other.kind == fit.kind && other.half == fit.half && other.algorithm == name_of(PeerEngine::kernel);
    };
    if (std::ranges::none_of(found.fits, is_kernels))
      file["fits"].refuse(std::string(name_of(fit.kind)) + " has none of " + std::string(name_of(PeerEngine::kernel)) +
                          ", which the others are compared with");
  }
  if (file.has("measured")) file["measured"].is_table_of_texts();
  return found;
}

std::string gpu_differences(const JsonField& file, const JobShape& here) {
  const JsonField shape = file["shape"];
  JobShape there = here;
  there.lanecast = shape["lanecast"].text();
  there.cpu = shape["cpu"].text();
  there.hosts = 1;
  std::string found = differences(there, here);
  if (const std::int64_t ranks = shape["ranks"].whole(); ranks != here.ranks)
    found += (found.empty() ? "ranks: " : "; ranks: ") + std::to_string(ranks) + ", not " + std::to_string(here.ranks);
  return found;
}

}  // namespace lanecast
