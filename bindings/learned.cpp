// SPDX-License-Identifier: Apache-2.0
// Trained support vector machines, from the lists that stand in a model's file.
#include "select/learned.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "bindings.h"
#include "plan_dict.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {

void bind_learned(nb::module_& m) {
  nb::class_<Svm>(m, "Svm", "A support vector machine over a few features; see src/select/svm.h.")
      .def(
          "__init__",
          [](Svm* self, const std::pair<Features, Features>& standard, double gamma, std::vector<int> support,
             const std::vector<Features>& vectors, std::vector<double> weights, std::vector<double> intercepts) {
            Svm svm{standard.first,     standard.second,      gamma, std::move(support), {},
                    std::move(weights), std::move(intercepts)};
            for (const Features& vector : vectors) svm.vectors.push_back(vector);
            check(svm);
            new (self) Svm(std::move(svm));
          },
          "standard"_a, "gamma"_a, "support"_a, "vectors"_a, "weights"_a, "intercepts"_a,
          "standard: mean and scale of the features. weights: classes - 1 rows of one for each vector. Raises "
          "UsageError "
          "where the lists do not fit together.")
      .def(
          "vote",
          [](const Svm& svm, const Features& features, std::vector<bool> allowed) {
            allowed.resize(svm.support.size(), allowed.empty());
            return vote(svm, features, allowed);
          },
          "features"_a, "allowed"_a = std::vector<bool>{},
          "Number of the class that wins most duels among those allowed (all, if none is named); -1 without any.");
  m.def("features_of", &features_of, "bytes"_a, "ranks"_a, "nodes"_a,
        "What a machine is asked with; see src/select/learned.h.");
  using Range = std::pair<std::size_t, std::size_t>;
  using TimedTuple = std::tuple<int, std::size_t, double>;
  nb::class_<Learned>(m, "Learned", "What was learned of one collective; see src/select/learned.h.")
      .def(
          "__init__",
          [](Learned* self, const std::string& collective, const Range& bytes, const std::pair<int, int>& ranks,
             std::vector<std::string> algorithms, std::vector<std::array<int, 2>> timed_on, const Svm& svm,
             const std::vector<std::vector<TimedTuple>>& times) {
            Learned learned{kind_named(collective), bytes.first,         bytes.second, ranks.first, ranks.second,
                            std::move(algorithms),  std::move(timed_on), svm,          {}};
            for (const auto& of_class : times) {
              auto& calls = learned.times.emplace_back();
              for (const auto& [count, size, seconds] : of_class) calls.push_back({count, size, seconds});
            }
            check(learned);
            new (self) Learned(std::move(learned));
          },
          "collective"_a, "bytes"_a, "ranks"_a, "algorithms"_a, "timed_on"_a, "svm"_a,
          "times"_a = std::vector<std::vector<TimedTuple>>{},
          "bytes, ranks: the smallest and the largest that it was trained on. timed_on: the ranks of each algorithm. "
          "times: of each algorithm (ranks, bytes, seconds), or none.")
      .def(
          "timed_s",
          [](const Learned& learned, std::size_t algorithm, std::size_t bytes, int ranks) {
            return timed_s(learned.times.at(algorithm), bytes, ranks);
          },
          "algorithm"_a, "bytes"_a, "ranks"_a, "Seconds between those that were timed; 0 beyond them.")
      .def_ro("svm", &Learned::svm)
      .def_prop_ro("collective", [](const Learned& learned) { return std::string(name_of(learned.kind)); })
      .def_ro("algorithms", &Learned::algorithms);
}

}  // namespace lanecast
