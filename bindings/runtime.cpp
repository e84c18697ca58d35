// SPDX-License-Identifier: Apache-2.0
// Communicators as the Python package makes them, and the names that it shares with the core.
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/running_time.h"
#include "bindings.h"
#include "calls.h"
#include "choosing.h"
#include "gil.h"
#include "python_bootstrap.h"
#include "runtime/communicator/communicator.h"
#include "runtime/request/coming_together.h"
#include "slow_links.h"
#include "takes_gpus.h"
#include "transport/loopback/world.h"
#include "transport/mpi/communicator.h"
#include "transport/mpi/inherited.h"

namespace nb = nanobind;
using namespace nb::literals;

/// nanobind's own would keep Python's lock, for which another thread may wait that this end waits for: one that goes on
/// with a GPU's stream, say.
template <>
void nanobind::detail::wrap_destruct<lanecast::Communicator>(void* communicator) noexcept {
  const lanecast::WithoutGil release;
  static_cast<lanecast::Communicator*>(communicator)->~Communicator();
}

namespace lanecast {
namespace {

template <class T>
T option(const std::string& name, nb::handle value, const char* expected) {
  T converted{};
  if (!nb::try_cast(value, converted))
    throw UsageError("option " + name + ": " + nb::cast<std::string>(nb::repr(value)) + " is not " + expected);
  return converted;
}

CommunicatorOptions options_from(const nb::dict& d) {
  CommunicatorOptions options;
  options.interrupt = raise_signals;
  const auto text = [](const std::string& name, nb::handle value) {
    return option<std::string>(name, value, "a text");
  };
  const auto number = [](const std::string& name, nb::handle value) {
    return option<int>(name, value, "a whole number of 32 bits");
  };
  for (auto [key, value] : d) {
    const auto name = nb::cast<std::string>(key);
    if (name == "topology" && nb::isinstance<Topology>(value))
      options.placed = nb::cast<Topology>(value);
    else if (name == "topology")
      options.topology = option<std::string>(name, value, "a text or a Topology");
    else if (name == "transports")
      options.transports = text(name, value);
    else if (name == "algorithm")
      options.algorithm = text(name, value);
    else if (name == "chunks")
      options.chunks = number(name, value);
    else if (name == "reproducible")
      options.reproducible = option<bool>(name, value, "True or False");
    else if (name == "timeout_s")
      options.timeout_s = option<double>(name, value, "a number of seconds");
    else if (name == "check_calls")
      options.check_calls = option<bool>(name, value, "True or False");
    else if (name == "trace_dir")
      options.trace_dir = option<std::filesystem::path>(name, value, "a path").string();
    else if (name == "trace_steps")
      options.trace_steps = option<bool>(name, value, "True or False");
    else if (name == "device")
      options.device = number(name, value);
    else if (name == "allow_shared_gpu")
      options.allow_shared_gpu = option<bool>(name, value, "True or False");
    else if (name == "max_ctas")
      options.max_ctas = number(name, value);
    else if (name == "gpu_messages")
      options.gpu_messages = text(name, value);
    else if (name == "links")
      options.links = text(name, value);
    else if (name == "gpu_library_folders")
      options.gpu_library_folders = option<std::vector<std::string>>(name, value, "a list of folders");
    else if (name == "kernel_cache")
      options.kernel_cache = option<std::filesystem::path>(name, value, "a path").string();
    else if (name == "window")
      options.executor.window = number(name, value);
    else if (name == "chunks_in_flight")
      options.executor.chunks_in_flight = number(name, value);
    else
      throw UsageError("option '" + name +
                       "' is unknown; known: topology transports algorithm chunks reproducible profile timeout_s "
                       "check_calls trace_dir trace_steps device allow_shared_gpu max_ctas gpu_messages links "
                       "gpu_library_folders kernel_cache window chunks_in_flight processes_per_gpu "
                       "allow_shared_cores");
  }
  return options;
}

using SharedProgress = std::shared_ptr<ProgressThread>;

std::unique_ptr<Communicator> from_threads(const std::shared_ptr<LoopbackWorld>& world, int rank,
                                           const SharedProgress& progress, const nb::dict& options) {
  auto parsed = options_from(options);
  const WithoutGil release;
  return std::make_unique<Communicator>(among_threads(world, rank), std::move(parsed), progress);
}

struct Slowness {
  std::vector<std::pair<double, double>> links;  // seconds a message, seconds a byte
  std::vector<int> link_of_peer;
  std::shared_ptr<SimulatedClock> clock;  // null: the links are as they are
  std::vector<std::string> hosts;         // that the ranks take themselves to be on; empty: this one
};

std::unique_ptr<Communicator> from_slow_threads(const std::shared_ptr<LoopbackWorld>& world, int rank,
                                                const SharedProgress& progress, const nb::dict& options,
                                                const Slowness& slowness) {
  auto parsed = options_from(options);
  const WithoutGil release;
  Surroundings around = among_threads(world, rank);
  if (!slowness.hosts.empty()) around.hosts = slowness.hosts;
  if (slowness.clock)
    around.decorate = [slowness, rank](std::unique_ptr<Transport> transport,
                                       const std::vector<int>& ranks) -> std::unique_ptr<Transport> {
      std::vector<SlowLink> links;
      std::vector<int> link_of_peer;
      link_of_peer.reserve(ranks.size());
      for (int r : ranks) link_of_peer.push_back(slowness.link_of_peer[r]);
      links.reserve(slowness.links.size());
      for (const auto& [alpha_s, beta_s_per_byte] : slowness.links) links.push_back({alpha_s, beta_s_per_byte});
      return std::make_unique<SlowLinks>(std::move(transport), links, std::move(link_of_peer),
                                         ClockOfRank{slowness.clock, rank, ranks});
    };
  return std::make_unique<Communicator>(std::move(around), std::move(parsed), progress);
}

std::unique_ptr<Communicator> from_mpi(const std::shared_ptr<MpiApi>& mpi, std::uintptr_t comm_address,
                                       const SharedProgress& progress, const nb::dict& options) {
  auto parsed = options_from(options);
  const WithoutGil release;
  const MpiComm parent = mpi->parent_at(reinterpret_cast<const void*>(comm_address));
  const double timeout_s = timeout_to_begin_s(parsed);
  return std::make_unique<Communicator>(among_mpi(MpiCommunicator::duplicate(mpi, parent, {timeout_s, raise_signals})),
                                        std::move(parsed), progress);
}

std::unique_ptr<Communicator> from_all_gather(int rank, int size, const PyAllGather& all_gather,
                                              const SharedProgress& progress, const nb::dict& options) {
  Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
  auto parsed = options_from(options);
  const WithoutGil release;
  return std::make_unique<Communicator>(among_processes(std::move(bootstrap)), std::move(parsed), progress);
}

/// how: see TakesGpus.
std::unique_ptr<Communicator> from_all_gather_on_gpus(int rank, int size, const PyAllGather& all_gather,
                                                      const std::pair<SharedProgress, TakesGpus::How>& with,
                                                      const nb::dict& options) {
  Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
  auto parsed = options_from(options);
  const WithoutGil release;
  Surroundings around = among_processes(std::move(bootstrap));
  around.decorate = [how = with.second](std::unique_ptr<Transport> transport, const std::vector<int>&) {
    return std::make_unique<TakesGpus>(std::move(transport), how);
  };
  return std::make_unique<Communicator>(std::move(around), std::move(parsed), with.first);
}

}  // namespace

void bind_runtime(nb::module_& m) {
  nb::class_<LoopbackWorld>(m, "LoopbackWorld", "Ranks that are threads of this process.")
      .def_prop_ro("size", &LoopbackWorld::size);
  m.def(
      "make_world",
      [](int size, double deadline_s) {
        return std::make_shared<LoopbackWorld>(size, std::chrono::milliseconds(std::llround(deadline_s * 1e3)));
      },
      "size"_a, "deadline_s"_a = 30.0, "deadline_s: how long a rank waits for the others while they come together.");

  m.def(
      "running_seconds",
      [](const std::vector<std::pair<double, double>>& looks, double timeout_s, double then_s) {
        using Clock = RunningTime::Clock;
        const auto ticks = [](double s) {
          return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
        };
        RunningTime ran;
        for (const auto& [at_s, worked_s] : looks)
          ran.look({Clock::time_point(ticks(at_s)), ticks(worked_s)}, timeout_s);
        return ran.seconds_since(Clock::time_point(ticks(then_s)), Clock::time_point(ticks(looks.back().first)));
      },
      "looks"_a, "timeout_s"_a, "then_s"_a,
      "looks: the time and the processor time of each; how much of the time from then_s to the last the process ran.");

  nb::class_<ProgressThread>(m, "ProgressThread", "Moves started calls; sleeps while there are none.")
      .def(
          "stop", [](ProgressThread& p, double grace_s) { p.stop(std::chrono::duration<double>(grace_s)); },
          "grace_s"_a, nb::call_guard<WithoutGil>(), "End it, after calls under way have had some time.");
  m.def("make_progress_thread", [] { return std::make_shared<ProgressThread>(); });

  nb::class_<MpiApi>(m, "Mpi", "An MPI library, opened at run time.")
      .def_prop_ro("path", [](const MpiApi& mpi) { return mpi.library().path; })
      .def_prop_ro("abi", [](const MpiApi& mpi) { return mpi.library().abi; })
      .def_prop_ro("version", [](const MpiApi& mpi) { return mpi.library().version; })
      .def_prop_ro("initialized", &MpiApi::initialized)
      .def(
          "check_parent",
          [](const MpiApi& mpi, std::uintptr_t comm) { mpi.check_parent(reinterpret_cast<const void*>(comm)); },
          "comm_address"_a, nb::call_guard<WithoutGil>(),
          "UsageError for the address of an MPI_Comm, 0: MPI_COMM_WORLD, of which no communicator can be made.")
      .def(
          "init", [](MpiApi& mpi) { return static_cast<int>(mpi.init_thread(MpiThreads::multiple)); },
          nb::call_guard<WithoutGil>(), "Start MPI unless it runs; returns its thread level, 0 to 3.")
      .def(
          "finalize", [](MpiApi& mpi) { mpi.finalize(MpiLatecomers::stay); }, nb::call_guard<WithoutGil>(),
          "End MPI if init() started it, and with it calls of other threads: these stay where they are.");
  m.def(
      "inherited_rank", [] { return mpi::inherited_rank(mpi::detect_launcher().family); },
      "Why the launcher's variables of this process are no rank's of its own, and what to do; empty where they are.");
  m.def("load_mpi", [](const std::vector<std::string>& directories) { return load_mpi(directories); }, "directories"_a);

  nb::class_<SimulatedClock>(m, "SimulatedClock", "Of slow links: passes only while all ranks wait.")
      .def("seconds", &SimulatedClock::read_s, "As time.perf_counter().");
  m.def("make_simulated_clock", [](int ranks) { return std::make_shared<SimulatedClock>(ranks); }, "ranks"_a);
  nb::class_<Slowness>(m, "Slowness", "Links of (seconds a message, seconds a byte), by the clock of all ranks.")
      .def(
          "__init__",
          [](Slowness* made, std::vector<std::pair<double, double>> links, std::vector<int> link_of_peer,
             std::shared_ptr<SimulatedClock> clock, std::vector<std::string> hosts) {
            new (made) Slowness{std::move(links), std::move(link_of_peer), std::move(clock), std::move(hosts)};
          },
          "links"_a, "link_of_peer"_a, "clock"_a.none(), "hosts"_a = std::vector<std::string>());

  nb::class_<Communicator> communicator(m, "Communicator");
  communicator.def_static("from_threads", &from_threads, "world"_a, "rank"_a, "progress"_a, "options"_a)
      .def_static(
          "from_slow_threads",
          [](const std::shared_ptr<LoopbackWorld>& world, int rank, const SharedProgress& progress,
             const nb::dict& options,
             const Slowness& slowness) { return from_slow_threads(world, rank, progress, options, slowness); },
          "world"_a, "rank"_a, "progress"_a, "options"_a, "slowness"_a,
          "For tests: threads whose messages pass slow links.")
      .def_static("from_mpi", &from_mpi, "mpi"_a, "comm_address"_a, "progress"_a, "options"_a)
      .def_static("from_all_gather", &from_all_gather, "rank"_a, "size"_a, "all_gather"_a, "progress"_a, "options"_a)
      .def_static(
          "from_all_gather_on_gpus",
          [](int rank, int size, const PyAllGather& all_gather, const SharedProgress& progress, const nb::dict& options,
             bool takes, bool calls_driver, std::string stuck_while) {
            return from_all_gather_on_gpus(rank, size, all_gather,
                                           {progress, {takes, calls_driver, std::move(stuck_while)}}, options);
          },
          "rank"_a, "size"_a, "all_gather"_a, "progress"_a, "options"_a, "takes"_a, "calls_driver"_a, "stuck_while"_a,
          "For tests: transports that take the memory of GPUs without one.")
      .def_prop_ro("rank", &Communicator::rank)
      .def_prop_ro("size", &Communicator::size)
      .def_prop_ro("topology", &Communicator::topology, nb::rv_policy::copy)
      .def_prop_ro("transports", &Communicator::transports)
      .def_prop_ro("nics_at_once", &Communicator::nics_at_once,
                   "How many NICs a rank has at most where threads of its own move long messages through all; else 1.")
      .def_prop_ro("hosts", &Communicator::hosts, "On how many hosts the ranks run.")
      .def_prop_ro("timeout_s", [](const Communicator& c) { return c.options().timeout_s.value_or(kTimeout_s); })
      .def("write_trace", &Communicator::write_trace, "directory"_a, nb::call_guard<WithoutGil>())
      .def("abort", &Communicator::abort, "why"_a, nb::call_guard<WithoutGil>())
      .def(
          "split", [](Communicator& c, int color, int key) { return c.split(color, key, raise_signals); }, "color"_a,
          "key"_a, nb::call_guard<WithoutGil>());
  bind_choosing(communicator);

  bind_calls(m, communicator);
  bind_gpu(m, communicator);

  nb::list kinds;
  for (const Kind kind : kAllKinds) kinds.append(name_of(kind));
  m.attr("KINDS") = nb::tuple(kinds);
  nb::list dtypes, ops;
  for (int k = 0; k < kDTypes; ++k) dtypes.append(name_of(static_cast<DType>(k)));
  for (int k = 0; k < kReduceOps; ++k) ops.append(name_of(static_cast<ReduceOp>(k)));
  m.attr("DTYPES") = nb::tuple(dtypes);
  m.attr("OPS") = nb::tuple(ops);
  m.def(
      "supports", [](int op, int dtype) { return supports(static_cast<ReduceOp>(op), static_cast<DType>(dtype)); },
      "op"_a, "dtype"_a, "Does the reduction take this element type?");
  m.attr("TRANSPORTS") = nb::tuple(nb::cast(transport_names()));
  nb::list variables;
  for (std::string_view name : known_variables()) variables.append(name);
  m.attr("VARIABLES") = nb::tuple(variables);
  m.def("host_identity", &host_identity, "What ranks must agree on to share memory.");
}

}  // namespace lanecast
