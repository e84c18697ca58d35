// SPDX-License-Identifier: Apache-2.0
// Networks of emulated NICs: making one, its NIC processes, what went through each NIC, and puts by themselves.
#include <nanobind/stl/function.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bindings.h"
#include "gil.h"
#include "open_transport.h"
#include "plain_puts.h"
#include "python_bootstrap.h"
#include "transport/emulated/control.h"
#include "transport/emulated/fabric.h"
#include "transport/emulated/nic_process.h"
#include "transport/emulated/transport.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

nb::list counters(const std::string& folder) {
  const emulated::Fabric fabric(folder);
  const auto& state = fabric.state();
  nb::list rows;
  for (std::uint32_t k = 0; k < state.hosts * state.nics; ++k) {
    nb::dict row;
    row["host"] = k / state.nics;
    row["nic"] = k % state.nics;
    row["received_bytes"] = state.nic[k].received_bytes.load();
    row["sent_bytes"] = state.nic[k].sent_bytes.load();
    row["messages"] = state.nic[k].messages.load();
    // As time.monotonic() counts: when the last byte that was sent here has crossed the wire, or will have.
    row["receives_until_s"] = static_cast<double>(state.nic[k].receives_until_ns.load()) * 1e-9;
    rows.append(row);
  }
  return rows;
}

nb::dict shape(const std::string& folder) {
  const emulated::Fabric fabric(folder);
  nb::dict facts;
  facts["hosts"] = fabric.state().hosts;
  facts["nics"] = fabric.state().nics;
  facts["bytes_per_s"] = fabric.state().bytes_per_s;
  facts["latency_s"] = static_cast<double>(fabric.state().latency_ns) * 1e-9;
  return facts;
}

void run_nic_process(const std::string& folder, const std::string& host, int host_index, int starter,
                     const std::function<void()>& ready) {
  const WithoutGil release;
  emulated::run_nic_process(
      {folder, host, host_index, starter},
      [&] {
        const WithGil gil;
        ready();
      },
      [] {
        const WithGil gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        return true;
      });
}

}  // namespace

void bind_emulated(nb::module_& m) {
  m.def(
      "make_emulated_network",
      [](const std::string& folder, int hosts, int nics, double bytes_per_s, double latency_s) {
        emulated::Fabric::create(folder, {hosts, nics, bytes_per_s, latency_s});
      },
      "folder"_a, "hosts"_a, "nics"_a, "bytes_per_s"_a, "latency_s"_a,
      "Of so many hosts with so many NICs, each of that rate in each direction.");
  m.def("emulated_traffic", &counters, "folder"_a, "What each NIC has sent and received.");
  m.def("emulated_network", &shape, "folder"_a, "{hosts, nics, bytes_per_s, latency_s}");
  m.def("emulated_host_answers", &emulated::answers, "folder"_a, "host"_a,
        "Does the NIC process of that host take ranks?");
  m.def("emulated_network_may_answer", &emulated::any_may_answer, "folder"_a,
        "Does any NIC process of the network take ranks? True also where that cannot be told.");
  m.def("run_nic_process", &run_nic_process, "folder"_a, "host"_a, "host_index"_a, "starter"_a, "ready"_a,
        "Plays the NICs of a host until a signal ends it, or nobody uses it and its starter has ended (0: never).");
  m.def(
      "open_emulated",
      [](int rank, int size, const PyAllGather& all_gather, const std::string& folder, const std::string& host) {
        const Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
        const WithoutGil release;
        return std::make_unique<OpenTransport>(std::make_unique<EmulatedTransport>(bootstrap, folder, host));
      },
      "rank"_a, "size"_a, "all_gather"_a, "folder"_a, "host"_a, "Collective.");
  using emulated::PlainPuts;
  nb::class_<PlainPuts>(m, "PlainPuts", "Puts between GPUs over emulated NICs, and nothing else.")
      .def(
          "__init__",
          [](PlainPuts* self, int rank, int size, const PyAllGather& all_gather, const std::string& folder,
             const std::string& host, int device, std::size_t bytes) {
            const Bootstrap bootstrap = bootstrap_from(rank, size, all_gather);
            const WithoutGil release;
            new (self) PlainPuts(bootstrap, folder, host, device, bytes);
          },
          "rank"_a, "size"_a, "all_gather"_a, "folder"_a, "host"_a, "device"_a, "bytes"_a, "Collective.")
      .def_prop_ro("nic", &PlainPuts::nic)
      .def("put", &PlainPuts::put, "peer"_a, "offset"_a, "bytes"_a, "word"_a = 0, nb::call_guard<WithoutGil>())
      .def("time", &PlainPuts::time, "peer"_a, "bytes"_a, "puts"_a, nb::call_guard<WithoutGil>())
      .def("done", &PlainPuts::done, nb::call_guard<WithoutGil>())
      .def(
          "wait",
          [](PlainPuts& self) {
            const WithoutGil release;
            while (!self.done()) continue;
          },
          "Until all puts have left their memory, and their words are there.")
      .def(
          "fill",
          [](PlainPuts& self, const nb::bytes& content) {
            self.fill({reinterpret_cast<const std::byte*>(content.c_str()), content.size()});
          },
          "content"_a)
      .def(
          "come",
          [](PlainPuts& self, std::size_t offset, std::size_t bytes) {
            const std::vector<std::byte> content = self.come(offset, bytes);
            return nb::bytes(reinterpret_cast<const char*>(content.data()), content.size());
          },
          "offset"_a, "bytes"_a)
      .def("word_of", &PlainPuts::word_of, "rank"_a, nb::call_guard<WithoutGil>());
}

}  // namespace lanecast
