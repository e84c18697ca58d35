// SPDX-License-Identifier: Apache-2.0
// What turned out slower than predicted, to Python.
#include "runtime/watch/surprises.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

nb::list to_list(const std::vector<Surprise>& surprises) {
  nb::list list;
  for (const Surprise& surprise : surprises) {
    nb::dict d;
    d["collective"] = name_of(surprise.kind);
    d["bytes"] = surprise.bytes;
    d["algorithm"] = surprise.algorithm;
    d["chunks"] = surprise.chunks;
    d["predicted_s"] = surprise.predicted_s;
    d["measured_s"] = surprise.measured_s;
    list.append(d);
  }
  return list;
}

nb::list judged(double predicted_s, const std::vector<std::int64_t>& took_ns) {
  Surprises surprises;
  Expectation expected = Surprises::expecting(predicted_s);
  for (const std::int64_t each : took_ns)
    surprises.judge(expected, each, [] { return Surprise{.kind = Kind::all_reduce, .bytes = 1, .algorithm = "ring"}; });
  return to_list(surprises.found());
}

}  // namespace

void bind_surprises(nb::module_& m) {
  nb::class_<Surprises>(m, "Surprises", "What a communicator has chosen and is slower than predicted.")
      .def(
          "found", [](const Surprises& surprises) { return to_list(surprises.found()); },
          "One dictionary for each collective and size class.");
  m.def("judge_calls", &judged, "predicted_s"_a, "took_ns"_a,
        "For tests: what calls of one shape, one after the other, are found to be.");
}

}  // namespace lanecast
