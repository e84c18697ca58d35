// SPDX-License-Identifier: Apache-2.0
#include "select/svm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

/// Of standardised features to each support vector.
std::vector<double> kernel(const Svm& svm, const Features& features) {
  Features at{};
  for (std::size_t k = 0; k < kFeatures; ++k) at[k] = (features[k] - svm.mean[k]) / svm.scale[k];
  std::vector<double> values;
  values.reserve(svm.vectors.size());
  for (const Features& vector : svm.vectors) {
    double squares = 0;
    for (std::size_t k = 0; k < kFeatures; ++k) squares += (at[k] - vector[k]) * (at[k] - vector[k]);
    values.push_back(std::exp(-svm.gamma * squares));
  }
  return values;
}

void expect(const char* what, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw UsageError(std::string(what) + ": " + std::to_string(found) + " numbers, expected " +
                     std::to_string(expected));
}

void expect_finite(const char* what, const double* begin, std::size_t count) {
  if (!std::all_of(begin, begin + count, [](double value) { return std::isfinite(value); }))
    throw UsageError(std::string(what) + ": holds what is no finite number");
}

}  // namespace

void check(const Svm& svm) {
  if (svm.support.empty()) throw UsageError("classes: none");
  for (const int count : svm.support)
    if (count < 0) throw UsageError("support: a class has " + std::to_string(count) + " vectors");
  const std::size_t classes = svm.support.size();
  const auto all = static_cast<std::size_t>(std::accumulate(svm.support.begin(), svm.support.end(), std::int64_t{0}));
  expect("vectors", svm.vectors.size(), all);
  expect("weights", svm.weights.size(), (classes - 1) * all);
  expect("intercepts", svm.intercepts.size(), classes * (classes - 1) / 2);
  expect_finite("mean", svm.mean.data(), kFeatures);
  expect_finite("scale", svm.scale.data(), kFeatures);
  expect_finite("gamma", &svm.gamma, 1);
  for (const Features& vector : svm.vectors) expect_finite("vectors", vector.data(), kFeatures);
  expect_finite("weights", svm.weights.data(), svm.weights.size());
  expect_finite("intercepts", svm.intercepts.data(), svm.intercepts.size());
  if (std::ranges::any_of(svm.scale, [](double scale) { return !(scale > 0); }))
    throw UsageError("scale: must be more than 0");
}

int vote(const Svm& svm, const Features& features, const std::vector<bool>& allowed) {
  const std::vector<double> near = kernel(svm, features);
  const std::size_t all = svm.vectors.size();
  std::vector<int> votes(svm.classes(), 0);
  std::size_t pair = 0, first_of_a = 0;
  for (int a = 0; a < svm.classes(); first_of_a += svm.support[a++]) {
    std::size_t first_of_b = first_of_a + svm.support[a];
    for (int b = a + 1; b < svm.classes(); first_of_b += svm.support[b++], ++pair) {
      if (!allowed[a] || !allowed[b]) continue;
      double sum = 0;  // in libsvm's order, so that borders lie where they lie there
      for (std::size_t k = first_of_a; k < first_of_a + svm.support[a]; ++k)
        sum += svm.weights[(b - 1) * all + k] * near[k];
      for (std::size_t k = first_of_b; k < first_of_b + svm.support[b]; ++k) sum += svm.weights[a * all + k] * near[k];
      ++votes[sum + svm.intercepts[pair] > 0 ? a : b];
    }
  }
  int best = -1;
  for (int k = 0; k < svm.classes(); ++k)
    if (allowed[k] && (best < 0 || votes[k] > votes[best])) best = k;
  return best;
}

}  // namespace lanecast
