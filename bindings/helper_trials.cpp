// SPDX-License-Identifier: Apache-2.0
// How many processes move a call, for leaders that the package makes.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "helpers/trials.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using helpers::ProcessTrials;

ProcessTrials::Class class_of(int kind, std::size_t bytes) {
  return ProcessTrials::class_of(static_cast<Kind>(kind), bytes);
}

/// A question about calls of one kind and about one size.
template <auto question>
auto asked(const ProcessTrials& trials, int kind, std::size_t bytes) {
  return (trials.*question)(class_of(kind, bytes));
}

}  // namespace

void bind_helper_trials(nb::module_& m) {
  m.attr("LEAST_HELPED_BYTES") = helpers::kLeastBytes;
  nb::class_<ProcessTrials>(m, "ProcessTrials",
                            "How many processes move a call: as many as were fastest in the first of its size.")
      .def(nb::init<int>(), "processes"_a)
      .def_prop_ro("calls_until_due", &ProcessTrials::calls_until_due, "Of one kind and about one size.")
      .def(
          "next",
          [](ProcessTrials& trials, int kind, std::size_t bytes) {
            const ProcessTrials::Trial trial = trials.next(class_of(kind, bytes));
            return std::pair(trial.number, trial.is_timed);
          },
          "kind"_a, "bytes"_a, "Processes for the next call, and whether its time is wanted.")
      .def(
          "note",
          [](ProcessTrials& trials, int kind, std::size_t bytes, int number, double seconds) {
            trials.note(class_of(kind, bytes), number, seconds / static_cast<double>(bytes));
          },
          "kind"_a, "bytes"_a, "number"_a, "seconds"_a)
      .def("is_due", &asked<&ProcessTrials::is_due>, "kind"_a, "bytes"_a,
           "Has every number had its trials, and is none chosen yet?")
      .def("found", &asked<&ProcessTrials::found>, "kind"_a, "bytes"_a, "The chosen number; 0: none yet.")
      .def("best", &asked<&ProcessTrials::best>, "kind"_a, "bytes"_a, "Seconds for each byte, of each number.")
      .def(
          "settle",
          [](ProcessTrials& trials, int kind, std::size_t bytes, const std::vector<double>& slowest) {
            trials.settle(class_of(kind, bytes), slowest);
          },
          "kind"_a, "bytes"_a, "slowest"_a, "By the slowest rank's times.");
}

}  // namespace lanecast
