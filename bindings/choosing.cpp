// SPDX-License-Identifier: Apache-2.0
#include "choosing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "calls.h"
#include "gil.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

/// A call without buffers, to ask what it would take. own_counts: each rank would know its own only.
Call sizes_only(int kind, std::size_t count, int dtype, bool own_counts, std::optional<bool> reproducible = {}) {
  static constexpr std::size_t kAny = 0;  // where ranks know their own counts only, no choice depends on them
  Call call;
  if (own_counts) call.send_counts = {&kAny, 1};
  call.kind = static_cast<Kind>(kind);
  call.count = count;
  call.dtype = static_cast<DType>(dtype);
  call.reproducible = reproducible;
  return call;
}

}  // namespace

nb::dict to_dict(const Explanation& explanation) {
  nb::dict d;
  d["collective"] = std::string(name_of(explanation.kind));
  d["full_bytes"] = explanation.bytes;
  d["algorithm"] = explanation.chosen.algorithm;
  d["chunks"] = explanation.chosen.chunks;
  d["decided_by"] = std::string(name_of(explanation.chosen.decided_by));
  d["candidates"] = to_list(explanation.candidates);
  nb::dict left_out;
  for (const Explanation::LeftOut& each : explanation.left_out) left_out[each.algorithm.c_str()] = each.why;
  d["left_out"] = left_out;
  d["reason"] = explanation.reason();
  d["text"] = explanation.str();
  return d;
}

nb::list to_list(const std::vector<Choice>& choices) {
  nb::list list;
  for (const Choice& choice : choices) {
    nb::dict d;
    d["algorithm"] = choice.algorithm;
    d["chunks"] = choice.chunks;
    d["seconds"] = choice.seconds;
    d["latency_s"] = choice.latency_s;
    d["measured"] = choice.measured;
    d["basis"] = std::string(choice.basis);
    list.append(d);
  }
  return list;
}

void bind_choosing(nb::class_<Communicator>& communicator) {
  communicator
      .def(
          "chosen",
          [](const Communicator& c, int kind, std::size_t count, int dtype, std::optional<bool> reproducible,
             bool own_counts) {
            const Choice choice = c.choosing().chosen(sizes_only(kind, count, dtype, own_counts, reproducible));
            return nb::make_tuple(choice.algorithm, choice.chunks, std::string(name_of(choice.decided_by)));
          },
          "kind"_a, "count"_a, "dtype"_a, "reproducible"_a = nb::none(), "own_counts"_a = false)
      .def(
          "explain",
          [](const Communicator& c, int kind, std::size_t count, int dtype, bool own_counts) {
            return to_dict(c.choosing().explain(sizes_only(kind, count, dtype, own_counts)));
          },
          "kind"_a, "count"_a, "dtype"_a, "own_counts"_a = false, "See lanecast._core.explain.")
      .def(
          "explain_on_gpu",
          [](Communicator& c, int kind, std::size_t count, int dtype, bool symmetric, bool captured) {
            const Explanation found = [&] {
              const WithoutGil release;  // whoever has the communicator may want the GIL
              return c.gpu().explain(sizes_only(kind, count, dtype, /*own_counts=*/false), symmetric, captured);
            }();
            return to_dict(found);
          },
          "kind"_a, "count"_a, "dtype"_a, "symmetric"_a, "captured"_a, "See lanecast._core.explain_on_peers.")
      .def_prop_ro(
          "kind_of_gpu", [](Communicator& c) { return c.gpu().kind(); }, nb::call_guard<WithoutGil>())
      .def_prop_ro("models", [](const Communicator& c) { return c.choosing().models(); })
      .def_prop_ro("surprises", [](const Communicator& c) { return std::const_pointer_cast<Surprises>(c.surprises()); })
      .def(
          "adopt",
          [](Communicator& c, const Models& models, const std::string& refusal) {
            c.adopt(models, refusal, raise_signals);
          },
          "models"_a, "refusal"_a = "", nb::call_guard<WithoutGil>(),
          "Choose by rank 0's models from now on; its refusal, if not empty, is raised on all ranks. Collective.");
}

}  // namespace lanecast
