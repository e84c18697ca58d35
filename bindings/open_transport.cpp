// SPDX-License-Identifier: Apache-2.0
#include "open_transport.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "transport/witness.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

/// What ranks tell each other beside messages; see src/transport/witness.h. In C++ it is the executor that does.
void bind_telling(nb::class_<OpenTransport>& transport) {
  transport
      .def(
          "publish",
          [](OpenTransport& t, std::uint64_t sequence, std::uint64_t chain, const std::string& text) {
            CallNote note{.communicator = 1, .sequence = sequence, .chain = chain};
            text.copy(note.text.data(), note.text.size() - 1);
            t.get().witness().publish(note);
          },
          "sequence"_a, "chain"_a, "text"_a)
      .def(
          "published",
          [](OpenTransport& t, int peer, std::uint64_t sequence) {
            const auto note = t.get().witness().published(peer, sequence);
            return note ? std::optional(std::pair(note->chain, std::string(note->text.data()))) : std::nullopt;
          },
          "peer"_a, "sequence"_a, "(chain, text) of the peer's call, or None: it may take a few looks.")
      .def(
          "publish_wait",
          [](OpenTransport& t, const std::vector<int>& peers) {
            t.get().witness().publish_wait(peers, /*may_be_asked=*/true);
          },
          "peers"_a)
      .def(
          "waiting",
          [](OpenTransport& t, int peer, double silent_s) {
            const auto waiting = t.get().witness().waiting(peer, silent_s);
            return waiting ? std::optional(std::pair(waiting->peers, waiting->age_s)) : std::nullopt;
          },
          "peer"_a, "silent_s"_a, "(peers that it waits for, seconds since it has said so), or None.")
      .def(
          "want",
          [](OpenTransport& t, int peer, std::uint64_t bytes, std::uint64_t tag) {
            t.get().witness().want(peer, {.of = Want::Of::receive, .bytes = bytes, .tag = tag, .behind = {}});
          },
          "peer"_a, "bytes"_a, "tag"_a)
      .def(
          "wanted",
          [](OpenTransport& t, int peer) {
            const auto want = t.get().witness().wanted(peer);
            return want ? std::optional(std::pair(want->bytes, want->tag)) : std::nullopt;
          },
          "peer"_a, "(bytes, tag) of what the peer wants, or None.")
      .def(
          "tell", [](OpenTransport& t) { return t.get().witness().tell(); }, nb::call_guard<WithoutGil>(),
          "After abort(): is a peer still to be told?")
      .def(
          "given_up", [](OpenTransport& t) { return t.get().witness().given_up(); }, nb::call_guard<WithoutGil>(),
          "A peer that has given up and said so, or None.");
}

}  // namespace

void bind_open_transport(nb::module_& m) {
  nb::class_<OpenTransport> transport(m, "Transport", "Tagged messages between ranks; see src/transport/transport.h.");
  transport.def_prop_ro("name", [](OpenTransport& t) { return t.get().name(); })
      .def_prop_ro("scatters", [](OpenTransport& t) { return t.get().traits().scatters; })
      .def_prop_ro("consumes", [](OpenTransport& t) { return t.get().traits().consumes; })
      .def_prop_ro("compares_stamps", [](OpenTransport& t) { return t.get().traits().compares_stamps; })
      .def(
          "reaches", [](OpenTransport& t, int peer) { return t.get().reaches(peer); }, "peer"_a)
      .def("send", &OpenTransport::send, "peer"_a, "tag"_a, "buffers"_a, "stamp"_a = 0, "kind"_a = "",
           "kind: of the call that it belongs to, equal on both sides; none: of no call.")
      .def("receive", &OpenTransport::receive, "peer"_a, "tag"_a, "buffers"_a, "stamp"_a = 0, "kind"_a = "")
      .def("consume", &OpenTransport::consume, "peer"_a, "tag"_a, "bytes"_a, "consumer"_a, "kind"_a = "",
           "Receive by calling consumer(offset, data) for each piece.")
      .def("progress", &OpenTransport::progress, "Move what can be moved; the numbers of the finished requests.")
      .def(
          "register_memory",
          [](OpenTransport& t, std::uintptr_t address, std::size_t bytes, const nb::bytes& handle,
             const std::string& bus_id) {
            GpuSpan span{.vendor = GpuVendor::nvidia, .memory = {reinterpret_cast<std::byte*>(address), bytes}};
            std::memcpy(span.handle.data(), handle.c_str(), std::min(span.handle.size(), handle.size()));
            bus_id.copy(span.bus_id.data(), span.bus_id.size() - 1);
            t.get().register_memory(span);
          },
          "address"_a, "bytes"_a, "handle"_a, "bus_id"_a,
          "Of a GPU, on the stand-in the host's: messages may lie there.")
      .def(
          "arrived", [](OpenTransport& t, int peer, std::uint64_t tag) { return t.get().arrived(peer, tag); }, "peer"_a,
          "tag"_a, nb::call_guard<WithoutGil>(), "Has a message come that no receive has met?")
      .def(
          "abort", [](OpenTransport& t, const std::string& why) { t.get().abort({FailureKind::user, why}); },
          "why"_a = "", nb::call_guard<WithoutGil>())
      .def(
          "lost", [](OpenTransport& t, int peer) { return t.get().witness().lost(peer).str(); }, "peer"_a,
          nb::call_guard<WithoutGil>(), "Why the peer can no longer answer, or ''.")
      .def("close", &OpenTransport::close);
  bind_telling(transport);
}

}  // namespace lanecast
