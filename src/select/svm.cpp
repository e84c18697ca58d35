// SPDX-License-Identifier: Apache-2.0
#include "select/svm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

/// Place of the pair (a,b), or (b,a), among the intercepts.
std::size_t duel(const Svm& svm, int a, int b) {
  const int low = std::min(a, b), high = std::max(a, b);
  return static_cast<std::size_t>(low * svm.classes() - low * (low + 1) / 2 + high - low - 1);
}

/// Each pair's sum, in libsvm's order, so that borders lie where they lie there. Of a class's pairs several at a time,
/// since each addition waits for the one before it.
std::vector<double> of_duels(const Svm& svm, const std::vector<double>& near) {
  constexpr int kAtATime = 4;
  const int rows = svm.classes() - 1;
  std::vector<double> sums(svm.intercepts.size(), 0.0);
  std::size_t begin = 0;
  for (int a = 0; a <= rows; begin += svm.support[a++]) {
    const std::size_t end = begin + svm.support[a];
    for (int first = 0; first < rows; first += kAtATime) {
      std::array<double, kAtATime> sum{};
      std::array<const double*, kAtATime> row{};
      const auto other = [&](int j) { return std::min(first + j, rows - 1) + (std::min(first + j, rows - 1) >= a); };
      for (int j = 0; j < kAtATime; ++j) {
        row[j] = svm.weights.data() + std::min(first + j, rows - 1) * near.size();
        sum[j] = sums[duel(svm, a, other(j))];
      }
      for (std::size_t k = begin; k < end; ++k)
        for (int j = 0; j < kAtATime; ++j) sum[j] += row[j][k] * near[k];
      for (int j = 0; j < kAtATime; ++j) sums[duel(svm, a, other(j))] = sum[j];
    }
  }
  return sums;
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

void SupportVectors::push_back(const Features& vector) {
  auto& at = at_.emplace_back();
  for (std::size_t k = 0; k < kFeatures; ++k) {
    const auto known = std::ranges::find(values_[k], vector[k]);
    at[k] = static_cast<std::uint32_t>(known - values_[k].begin());
    if (known == values_[k].end()) values_[k].push_back(vector[k]);
  }
}

Features SupportVectors::operator[](std::size_t k) const {
  return {values_[0][at_[k][0]], values_[1][at_[k][1]], values_[2][at_[k][2]]};
}

std::vector<double> SupportVectors::kernel(double gamma, const Features& from) const {
  const std::size_t second = size() + values_[0].size(), third = second + values_[1].size();
  std::vector<double> near(third + values_[2].size());  // of each vector, then of each value
  double* next = near.data() + size();
  for (std::size_t k = 0; k < kFeatures; ++k)
    for (const double value : values_[k]) *next++ = std::exp(-gamma * (from[k] - value) * (from[k] - value));
  const double *a = near.data() + size(), *b = near.data() + second, *c = near.data() + third;
  next = near.data();
  for (const auto& at : at_) *next++ = a[at[0]] * b[at[1]] * c[at[2]];
  near.resize(size());
  return near;
}

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
  for (std::size_t k = 0; k < all; ++k) expect_finite("vectors", svm.vectors[k].data(), kFeatures);
  expect_finite("weights", svm.weights.data(), svm.weights.size());
  expect_finite("intercepts", svm.intercepts.data(), svm.intercepts.size());
  if (std::ranges::any_of(svm.scale, [](double scale) { return !(scale > 0); }))
    throw UsageError("scale: must be more than 0");
}

int vote(const Svm& svm, const Features& features, const std::vector<bool>& allowed) {
  Features at{};
  for (std::size_t k = 0; k < kFeatures; ++k) at[k] = (features[k] - svm.mean[k]) / svm.scale[k];
  const std::vector<double> duels = of_duels(svm, svm.vectors.kernel(svm.gamma, at));
  std::vector<int> votes(svm.classes(), 0);
  for (int a = 0; a < svm.classes(); ++a)
    for (int b = a + 1; b < svm.classes(); ++b)
      if (allowed[a] && allowed[b]) ++votes[duels[duel(svm, a, b)] + svm.intercepts[duel(svm, a, b)] > 0 ? a : b];
  int best = -1;
  for (int k = 0; k < svm.classes(); ++k)
    if (allowed[k] && (best < 0 || votes[k] > votes[best])) best = k;
  return best;
}

}  // namespace lanecast
