// SPDX-License-Identifier: Apache-2.0
// Transports by themselves, for the conformance suite and for looking at one message at a time: how each is opened.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_limits.h"
#include "bindings.h"
#include "gil.h"
#include "open_transport.h"
#include "python_bootstrap.h"
#include "runtime/request/options.h"
#include "transport/loopback/transport.h"
#include "transport/mpi/communicator.h"
#include "transport/mpi/mpi.h"
#include "transport/shm/transport.h"
#include "transport/ucx/libraries.h"
#include "transport/ucx/transport.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

nb::bytes gathered(const Bootstrap& bootstrap, const nb::bytes& mine) {
  std::string all(mine.size() * bootstrap.size, '\0');
  {
    const WithoutGil release;
    bootstrap.all_gather(mine.data(), all.data(), mine.size());
  }
  return nb::bytes(all.data(), all.size());
}

ShmOptions shm_options_from(const std::map<std::string, std::size_t>& given) {
  ShmOptions options;
  for (const auto& [name, value] : given) {
    if (name == "ring_bytes")
      options.ring_bytes = value;
    else if (name == "eager_bytes")
      options.eager_bytes = value;
    else if (name == "fragment_bytes")
      options.fragment_bytes = value;
    else if (name == "single_copy")
      options.single_copy = value ? SingleCopy::on : SingleCopy::off;
    else if (name == "all_far")
      options.far_from = value ? -1 : options.far_from;
    else
      throw UsageError("shared memory has no option '" + name + "'");
  }
  return options;
}

}  // namespace

void bind_transports(nb::module_& m) {
  bind_open_transport(m);

  m.def(
      "open_loopback",
      [](const std::shared_ptr<LoopbackWorld>& world, int rank, std::uint64_t channel) {
        return std::make_unique<OpenTransport>(std::make_unique<LoopbackTransport>(world, rank, channel));
      },
      "world"_a, "rank"_a, "channel"_a = 0);
  m.def(
      "world_all_gather",
      [](const std::shared_ptr<LoopbackWorld>& world, int rank, const nb::bytes& mine) {
        return gathered(world->bootstrap(rank), mine);
      },
      "world"_a, "rank"_a, "mine"_a, "The bootstrap of ranks that are threads.");
  m.def(
      "open_shm",
      [](int rank, int size, const PyAllGather& all_gather, const std::vector<int>& local_ranks,
         const std::map<std::string, std::size_t>& options) {
        const Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
        const ShmOptions parsed = shm_options_from(options);
        const WithoutGil release;
        return std::make_unique<OpenTransport>(std::make_unique<ShmTransport>(bootstrap, local_ranks, parsed));
      },
      "rank"_a, "size"_a, "all_gather"_a, "local_ranks"_a, "options"_a = std::map<std::string, std::size_t>{},
      "Collective. Options are those of ShmOptions; single_copy is 0 (off) or 1 (on), automatic when left out; "
      "all_far: 1 where all receivers are.");
  m.def(
      "memory_shortage",
      [](std::size_t bytes, const std::vector<std::string>& groups, const std::string& meminfo) {
        return memory_shortage(bytes, groups, meminfo);
      },
      "bytes"_a, "groups"_a, "meminfo"_a,
      "Why so many bytes more are too much in these control groups' folders, on a host with that /proc/meminfo.");
  m.def(
      "memory_groups",
      [](const std::string& cgroup, const std::string& mountinfo) { return memory_groups(cgroup, mountinfo); },
      "cgroup"_a, "mountinfo"_a, "Folders of the control groups that count a process' memory, by its files in /proc.");
  m.def(
      "open_ucx",
      [](int rank, int size, const PyAllGather& all_gather) {
        const Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
        const WithoutGil release;
        return std::make_unique<OpenTransport>(std::make_unique<UcxTransport>(bootstrap));
      },
      "rank"_a, "size"_a, "all_gather"_a, "Collective.");
  m.def(
      "ucx", [] { return std::tuple(ucx::Ucp::loaded().version(), ucx::Ucp::loaded().path()); },
      "(version, path) of UCX; UsageError where there is none.");
  m.def("ucx_without_drivers", &ucx::without_drivers, "transports"_a,
        "What UCX_TLS becomes where no driver of a GPU is to be called.");
  m.def(
      "ucx_libraries",
      [] {
        std::vector<std::tuple<std::string, bool, bool>> found;
        for (const ucx::Library& each : ucx::libraries(ucx::Ucp::loaded().path()))
          found.emplace_back(each.path, each.cuda, each.rocm);
        return found;
      },
      "(path, has a module for CUDA's memory, for ROCm's) of the UCX in use, and of the others that are found.");
  m.def(
      "open_mpi",
      [](const std::shared_ptr<MpiApi>& mpi) {
        auto comm = MpiCommunicator::duplicate(mpi, mpi->world(), {kTimeout_s, {}});
        return std::make_unique<OpenTransport>(std::make_unique<MpiTransport>(std::move(comm)));
      },
      "mpi"_a, nb::call_guard<WithoutGil>(), "Collective over all ranks of the job.");
  m.def(
      "mpi_world",
      [](const std::shared_ptr<MpiApi>& mpi) {
        const std::shared_ptr<const MpiCommunicator> comm =
            MpiCommunicator::duplicate(mpi, mpi->world(), {kTimeout_s, {}});
        const Bootstrap bootstrap = mpi_bootstrap(comm);
        const auto all_gather = [bootstrap](const nb::bytes& mine) { return gathered(bootstrap, mine); };
        return std::tuple(comm->rank(), comm->size(), std::function<nb::bytes(nb::bytes)>(all_gather));
      },
      "mpi"_a, "(rank, size, all_gather) of this process. Collective over all ranks of the job.");
}

}  // namespace lanecast
