// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator/settling_links.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "runtime/agree/link_times.h"
#include "runtime/gpu/gpu_executor.h"
#include "runtime/wires/links.h"

namespace lanecast {
namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool any_from(LinkSource source, const std::vector<Link>& links) {
  return std::ranges::count(links, source, &Link::source) > 0;
}

TimedLinks timed_links(const TimingSite& site, ProbeMemory memory) {
  Gathering gathering{.ranks = site.topology.everyone(),
                      .me = site.rank,
                      .timeout_s = site.timeout_s,
                      .what = "the timing of links between hosts (LANECAST_LINKS=assume leaves it out)",
                      .meanwhile = [&site](auto...) {
                        if (site.ask) site.ask();
                      }};
  const Bootstrap bootstrap = bootstrap_over(site.router, gathering);
  return time_links({*site.router, gathering, bootstrap, site.topology, site.hosts, memory, now_s, site.rivals});
}

/// Those here, but for the parent's that were timed.
std::vector<Link> inherited(const Choosing& choosing, const std::vector<Link>& parents) {
  std::vector<Link> links = choosing.models().links;
  for (std::size_t k = 0; k < links.size() && k < parents.size(); ++k)
    if (choosing.between_hosts()[k] && parents[k].source == LinkSource::timed) links[k] = parents[k];
  return links;
}

}  // namespace

bool settle_links(const TimingSite& site, const Choosing& choosing, Models& models) {
  if (!choosing.may_time_links() || any_from(LinkSource::file, models.links) ||
      any_from(LinkSource::timed, models.links))
    return false;
  const auto memory = std::make_unique<std::byte[]>(ProbeMemory::kBytes);
  const TimedLinks timed = timed_links(site, {memory.get()});
  replace_links(models.links, choosing.between_hosts(), timed);
  models.overlaps = overlaps_between_hosts(models.links[0]);
  models.timing = in_words(timed);
  return true;
}

void settle_gpu_links(const TimingSite& site, Choosing& choosing, GpuExecutor& executor) {
  const std::vector<Link>& links = choosing.models().links;
  const BetweenHosts& between = *executor.between_hosts();
  if (!between.is_direct() || !any_from(LinkSource::timed, links) || !choosing.gpu_links().links.empty()) return;
  const gpu::Device::Current current(executor.device());  // a library that moves a GPU's memory asks the thread for it
  const TimedLinks timed = timed_links(site, {between.message_memory()});
  Choosing::GpuLinks found{.links = links, .overlaps = {}, .timing = in_words(timed)};
  replace_links(found.links, choosing.between_hosts(), timed);
  found.overlaps = overlaps_between_hosts(found.links[0]);
  choosing.choose_on_gpus_by(std::move(found));
}

void inherit_links(Choosing& choosing, Models& known, const Choosing::GpuLinks& on_gpus) {
  if (std::vector<Link> links = inherited(choosing, on_gpus.links); any_from(LinkSource::timed, links)) {
    std::vector<Overlap> overlaps = overlaps_between_hosts(links[0]);
    choosing.choose_on_gpus_by({std::move(links), std::move(overlaps), on_gpus.timing});
  }
  if (known.measured()) return;
  const Models& own = choosing.models();
  known.links = inherited(choosing, known.links);
  known.reduce_s_per_byte = own.reduce_s_per_byte;
  if (any_from(LinkSource::timed, known.links)) {
    known.overlaps = overlaps_between_hosts(known.links[0]);
  } else {
    known.overlaps = own.overlaps;
    known.timing.clear();
  }
}

}  // namespace lanecast
