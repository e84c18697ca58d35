// SPDX-License-Identifier: Apache-2.0
// The cost model and what it knows of a machine.
#include "select/models.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "choosing.h"
#include "peer_choices.h"
#include "plan_dict.h"
#include "runtime/communicator/models_in_bytes.h"
#include "select/choose.h"
#include "select/cost.h"
#include "select/peer_lines.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

/// on_gpus: buffers lie there; messages between hosts pass through the hosts' memory, unless they go directly.
Request request_of(const std::string& collective, std::size_t bytes, bool on_gpus, bool directly) {
  return {.kind = kind_named(collective), .bytes = bytes, .on_gpus = on_gpus, .staged = on_gpus && !directly};
}

/// A copy whose links all have another value there.
auto with_all_links(double Link::* field) {
  return [field](Models models, double value) {
    for (Link& link : models.links) link.*field = value;
    return models;
  };
}

}  // namespace

void bind_models(nb::module_& m) {
  bind_peer_choices(m);
  using LinkTuple = std::pair<double, double>;
  using FitTuple = std::tuple<std::string, std::string, int, std::size_t, double, double>;
  using OverlapTuple = std::tuple<std::string, double, double, double>;
  nb::class_<Models>(m, "Models", "What the cost model knows of a machine; see src/select/models.h.")
      .def(
          "__init__",
          [](Models* self, const std::vector<LinkTuple>& links, double reduce_s_per_byte,
             const std::vector<FitTuple>& fits, const std::vector<OverlapTuple>& overlaps) {
            auto* models = new (self) Models{{}, reduce_s_per_byte, {}, {}, {}, {}, {}, {}, {}};
            for (const auto& [alpha_s, beta] : links) models->links.push_back({alpha_s, beta});
            for (const auto& [collective, algorithm, level, from_bytes, alpha_s, beta] : fits)
              models->fits.push_back({kind_named(collective), algorithm, level, from_bytes, alpha_s, beta});
            for (const auto& [collective, hidden, latency, scale] : overlaps)
              models->overlaps.push_back({kind_named(collective), hidden, latency, scale});
          },
          "links"_a, "reduce_s_per_byte"_a = Models{}.reduce_s_per_byte, "fits"_a = std::vector<FitTuple>{},
          "overlaps"_a = std::vector<OverlapTuple>{},
          "links: (alpha_s, beta_s_per_byte) per level, outermost first, and for the innermost domains. fits: "
          "(collective, algorithm, level or -1 for all ranks, from_bytes, alpha_s, beta_s_per_byte). overlaps: "
          "(collective, hidden, latency, scale).")
      .def(
          "with_overlap",
          [](Models models, const std::string& collective, double hidden, double latency, double scale) {
            const Overlap overlap{kind_named(collective), hidden, latency, scale};
            std::erase_if(models.overlaps, [&](const Overlap& o) { return o.kind == overlap.kind; });
            models.overlaps.push_back(overlap);
            return models;
          },
          "collective"_a, "hidden"_a, "latency"_a, "scale"_a, "A copy with another overlap.")
      .def("with_crowd", with_all_links(&Link::crowd), "ranks_per_core"_a, "A copy for a host whose ranks share cores.")
      .def(
          "with_gap",
          [](Models models, double gap_s) {
            models.links.at(0).gap_s = gap_s;
            return models;
          },
          "gap_s"_a, "A copy whose outermost link adds this for each further message that is under way.")
      .def(
          "with_asking",
          [](Models models, std::size_t asks_from, std::size_t asking_bytes) {
            for (Link& link : models.links) {
              link.traits.asks_from = asks_from;
              link.traits.asking_bytes = asking_bytes;
            }
            return models;
          },
          "asks_from"_a, "asking_bytes"_a,
          "A copy where messages of so many bytes leave only when they are asked for, which takes as long as copying "
          "asking_bytes.")
      .def(
          "with_reading",
          [](Models models, std::size_t from_bytes) {
            for (Link& link : models.links) link.traits.read_from = from_bytes;
            return models;
          },
          "from_bytes"_a, "A copy for a host on which receivers read messages of so many bytes.")
      .def("with_filling", with_all_links(&Link::filling), "filling"_a,
           "A copy whose calls wait for this share of the time in which a pipeline fills.")
      .def(
          "with_learned",
          [](Models models, const std::vector<Learned>& learned) {
            models.learned = learned;
            return models;
          },
          "learned"_a, "A copy that asks these first.")
      .def_prop_ro("learned", [](const Models& models) { return models.learned; })
      .def_prop_ro("measured", &Models::measured, "Do they hold fits, or only guesses?")
      .def_prop_ro("links",
                   [](const Models& models) {
                     std::vector<LinkTuple> links;
                     links.reserve(models.links.size());
                     for (const Link& link : models.links) links.emplace_back(link.alpha_s, link.beta_s_per_byte);
                     return links;
                   })
      .def_prop_ro(
          "sources",
          [](const Models& models) {
            std::vector<std::string> names;
            for (const Link& link : models.links) names.emplace_back(name_of(link.source));
            return names;
          },
          "Whence each link is: assumed, timed, given or from a profile.")
      .def_ro("timing", &Models::timing, "When and for how long links were timed; empty: never.")
      .def_prop_ro(
          "packed",
          [](const Models& models) {
            const std::string bytes = bytes_of(models);
            return nb::bytes(bytes.data(), bytes.size());
          },
          "All of it in bytes: equal for equal models.")
      .def(
          "subset",
          [](const Models& models, const Topology& topology, const std::vector<int>& ranks) {
            return subset(models, topology, ranks);
          },
          "topology"_a, "ranks"_a, "The models as a subgroup sees them.");
  m.def(
      "candidates",
      [](const std::string& collective, std::size_t bytes, const Topology& topology, const Models& models, bool on_gpus,
         bool directly) {
        return to_list(candidates(request_of(collective, bytes, on_gpus, directly), topology, models));
      },
      "collective"_a, "bytes"_a, "topology"_a, "models"_a, "on_gpus"_a = false, "directly"_a = false,
      "Dictionaries with algorithm, chunks, seconds (predicted), latency_s (of it) and measured, the cheapest first. "
      "on_gpus: buffers lie there, and messages between hosts pass through the hosts' memory, unless directly.");
  m.def(
      "explain",
      [](const std::string& collective, std::size_t bytes, const Topology& topology, const Models& models, bool by_mpi,
         const std::string& links) {
        const Request request{.kind = kind_named(collective), .bytes = bytes, .by_mpi = by_mpi};
        return to_dict({request.kind,
                        bytes,
                        choose(request, topology, models),
                        candidates(request, topology, models),
                        links.empty() ? known_of_links(models) : links,
                        {}});
      },
      "collective"_a, "bytes"_a, "topology"_a, "models"_a, "by_mpi"_a = false, "links"_a = "",
      "What would be chosen and why: algorithm, chunks, decided_by (\"pinned\", \"learned\", \"cost model\"), "
      "candidates as candidates() has them, a sentence as reason, and all of it as text. by_mpi: has MPI here a "
      "collective of its own? links: what is known of them.");
  nb::list engines;
  for (const std::string_view engine : kPeerEngines) engines.append(engine);
  m.attr("PEER_ENGINES") = nb::tuple(engines);
  nb::class_<PeerLines>(m, "PeerLines", "What was measured of the ways among the GPUs of a host.")
      .def(
          "__init__",
          [](PeerLines* self, const std::string& gpu, int ranks) {
            new (self) PeerLines(PeerLines::among({}, gpu, ranks));
          },
          "gpu"_a = "", "ranks"_a = 0,
          "Nothing, among GPUs of this kind; beside what was learned of so many of them and comes with the library.");
  m.def(
      "explain_on_peers",
      [](const std::string& collective, std::size_t bytes, int ranks, bool symmetric, const PeerLines& lines, bool half,
         bool nccl, bool captured) {
        PeerQuestion question;
        question.traffic = {.kind = kind_named(collective),
                            .ranks = ranks,
                            .bytes = bytes,
                            .symmetric = symmetric,
                            .half = half,
                            .nccl = nccl,
                            .chained = true,
                            .captured = captured};
        question.has_staging = true;
        return to_dict(explain(question, lines));
      },
      "collective"_a, "bytes"_a, "ranks"_a, "symmetric"_a, "lines"_a, "half"_a = false, "nccl"_a = true,
      "captured"_a = false,
      "The same of a call among the GPUs of a host. symmetric: do its buffers lie in symmetric memory? half: does it "
      "add 16-bit floats? nccl: is NCCL there? captured: by a graph.");
  m.def(
      "predict",
      [](const std::string& collective, std::size_t bytes, const Topology& topology, const Models& models,
         const std::string& algorithm, int chunks, bool on_gpus, bool directly) {
        return predict(request_of(collective, bytes, on_gpus, directly), topology, models, algorithm, chunks).seconds;
      },
      "collective"_a, "bytes"_a, "topology"_a, "models"_a, "algorithm"_a, "chunks"_a, "on_gpus"_a = false,
      "directly"_a = false, "Seconds that one of algorithms_for() takes. on_gpus, directly: as for candidates().");
  m.def(
      "best_chunks",
      [](const std::string& collective, std::size_t bytes, const Topology& topology, const Models& models,
         const std::string& algorithm, bool on_gpus, bool directly) {
        return predict(request_of(collective, bytes, on_gpus, directly), topology, models, algorithm).chunks;
      },
      "collective"_a, "bytes"_a, "topology"_a, "models"_a, "algorithm"_a, "on_gpus"_a = false, "directly"_a = false,
      "In how many chunks one of algorithms_for() would be run. on_gpus, directly: as for candidates().");
  m.def(
      "cost",
      [](const std::string& collective, const std::string& algorithm, int ranks) {
        const Cost cost = cost_of(algorithm, kind_named(collective), ranks);
        return std::pair(cost.rounds, cost.pipelined ? cost.rounds * cost.volume : cost.volume);
      },
      "collective"_a, "algorithm"_a, "ranks"_a,
      "(rounds, share of the full buffer that the busiest rank sends) of a row of the registry, in one chunk.");
  m.def(
      "is_pipeline",
      [](const std::string& collective, const std::string& algorithm, int ranks) {
        return cost_of(algorithm, kind_named(collective), ranks).pipelined;
      },
      "collective"_a, "algorithm"_a, "ranks"_a, "Do chunks follow each other through the rounds of that row?");
}

}  // namespace lanecast
