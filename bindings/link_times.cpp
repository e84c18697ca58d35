// SPDX-License-Identifier: Apache-2.0
// For tests: the timing of links, on a network and by a clock of the test's own.
#include "runtime/agree/link_times.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings.h"
#include "gil.h"
#include "runtime/wires/link_policy.h"
#include "runtime/wires/links.h"
#include "runtime/wires/surroundings.h"
#include "select/cost.h"
#include "transport/loopback/world.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using Clock = std::function<double()>;
using Volley = std::function<void(int, std::size_t)>;
using Values = std::tuple<double, double, double>;  // alpha, beta, gap

class GivenProbe final : public LinkProbe {
 public:
  GivenProbe(Clock now, Volley volley) : now_(std::move(now)), volley_(std::move(volley)) {}
  double now_s() override { return now_(); }
  void volley(int messages, std::size_t bytes) override { volley_(messages, bytes); }

 private:
  Clock now_;
  Volley volley_;
};

std::vector<std::optional<Values>> among_threads_with(const std::shared_ptr<LoopbackWorld>& world, int rank,
                                                      const std::vector<std::string>& hosts, const Clock& now) {
  const WithoutGil release;
  const Surroundings around = among_threads(world, rank);
  const Topology topology = Topology::from_hosts(hosts);
  const std::shared_ptr<Router> router = connect(around, topology, {});
  Gathering gathering{.ranks = topology.everyone(), .me = rank, .timeout_s = 60, .what = "a test", .meanwhile = {}};
  const Bootstrap bootstrap = bootstrap_over(router, gathering);
  const auto memory = std::make_unique<std::byte[]>(ProbeMemory::kBytes);
  const auto told = [&] {
    const WithGil gil;
    return now();
  };
  const TimedLinks timed = time_links({*router, gathering, bootstrap, topology, hosts, {memory.get()}, told});
  bootstrap.barrier();  // nobody leaves before
  std::vector<std::optional<Values>> found;
  for (const auto& link : timed.by_level) {
    found.emplace_back();
    if (link) found.back() = {link->alpha_s, link->beta_s_per_byte, link->gap_s};
  }
  return found;
}

}  // namespace

void bind_link_times(nb::module_& m) {
  m.def(
      "time_link",
      [](Clock now, Volley volley, double budget_s) {
        GivenProbe probe(std::move(now), std::move(volley));
        const LinkSteps steps = time_link(probe, budget_s);
        return Values(value_of(steps.alpha), value_of(steps.beta), value_of(steps.gap));
      },
      "now"_a, "volley"_a, "budget_s"_a,
      "(alpha_s, beta_s_per_byte, gap_s) of a link on which volley(messages, bytes) exchanges so many each way.");
  m.def("time_links", &among_threads_with, "world"_a, "rank"_a, "hosts"_a, "now"_a,
        "By level, outermost first, the same or None, among threads that take themselves for ranks of these hosts.");
  m.def(
      "filling_of",
      [](std::string_view transport, std::size_t bytes) { return filling_for(bytes, filling_of(transport)); },
      "transport"_a, "bytes"_a,
      "Of the time in which a pipeline fills, what such a call over these messages waits for.");
  m.def(
      "link_policy",
      [](const std::string& text) {
        const LinkPolicy policy = link_policy_from(text);
        static constexpr const char* kWays[] = {"measure", "assume", "given"};
        return std::tuple(kWays[static_cast<int>(policy.way)], policy.alpha_s, policy.beta_s_per_byte);
      },
      "text"_a, "What LANECAST_LINKS says: (\"measure\", \"assume\" or \"given\", alpha_s, beta_s_per_byte).");
}

}  // namespace lanecast
