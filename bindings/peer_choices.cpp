// SPDX-License-Identifier: Apache-2.0
#include "peer_choices.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>

#include "plan_dict.h"
#include "select/peer_cuts.h"
#include "select/peer_engines.h"
#include "select/peer_lines.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

nb::tuple as_tuple(const KernelCut& cut) { return nb::make_tuple(cut.blocks, cut.longest_piece); }

nb::dict cuts_of(const std::string& gpu, int max_ctas, int ranks, std::size_t bytes) {
  constexpr int kMostCtas = 64, kMeeting = 40;
  const PeerCuts cuts(gpu_kind(gpu), max_ctas, kMostCtas);
  const KernelCut exchange = cuts.exchange(bytes, /*reduces=*/false), two_shot = cuts.two_shot(bytes, ranks, false);
  const std::size_t sharers = cuts.sharers(bytes, exchange.blocks);
  const std::size_t share = std::max<std::size_t>((bytes + sharers - 1) / sharers, 1);
  nb::dict found;
  found["exchange"] = as_tuple(exchange);
  found["reduce"] = as_tuple(cuts.exchange(bytes, /*reduces=*/true));
  found["broadcast"] = as_tuple(cuts.broadcast(bytes));
  found["two_shot"] = as_tuple(two_shot);
  found["pumped_two_shot"] = as_tuple(cuts.two_shot(bytes, ranks, true));
  found["sharers"] = sharers;
  found["pieces"] =
      nb::make_tuple(cuts.piece(share, exchange.longest_piece), cuts.piece(share, two_shot.longest_piece));
  found["pumped"] = cuts.pumped(bytes);
  found["pace_ps"] = cuts.pace_ps(ranks, max_ctas);
  found["by_engines"] =
      nb::make_tuple(cuts.direct_by_engines(bytes, false, true), cuts.direct_by_engines(bytes, true, true),
                     cuts.direct_by_engines(bytes, true, false));
  const int meeting = std::min(kMeeting, max_ctas);
  found["direct_blocks"] = nb::make_tuple(cuts.direct_blocks(meeting, true), cuts.direct_blocks(meeting, false));
  found["beside_engines"] = cuts.blocks_beside_engines();
  found["engine_chunk"] = cuts.engine_chunk(bytes);
  return found;
}

}  // namespace

void bind_peer_choices(nb::module_& m) {
  m.def("peer_cuts", &cuts_of, "gpu"_a, "max_ctas"_a, "ranks"_a, "bytes"_a,
        "How calls among GPUs of that kind are cut, where the largest message has so many bytes; see "
        "src/select/peer_cuts.h.");
  m.def(
      "peer_engine",
      [](const std::string& gpu, const std::string& collective, int ranks, std::size_t bytes, bool symmetric,
         bool few_ctas, bool pumped, bool has_staging) {
        const PeerTraffic traffic{.kind = kind_named(collective),
                                  .ranks = ranks,
                                  .bytes = bytes,
                                  .symmetric = symmetric,
                                  .few_ctas = few_ctas,
                                  .pumped = pumped};
        const GpuKind& kind = gpu_kind(gpu);
        return nb::make_tuple(std::string(name_of(fastest(traffic, PeerLines(kind), has_staging))),
                              worth_an_offer(traffic, kind));
      },
      "gpu"_a, "collective"_a, "ranks"_a, "bytes"_a, "symmetric"_a = false, "few_ctas"_a = false, "pumped"_a = false,
      "has_staging"_a = false, "(engine that is chosen where nothing was measured, is an offer of windows worth it).");
}

}  // namespace lanecast
