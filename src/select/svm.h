// SPDX-License-Identifier: Apache-2.0
// A support vector machine over a few features, evaluated as scikit-learn's SVC evaluates it (one against one, RBF
// kernel).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace lanecast {

inline constexpr std::size_t kFeatures = 3;
using Features = std::array<double, kFeatures>;

/// Trained elsewhere. Features are standardised by mean and scale first.
struct Svm {
  Features mean{};
  Features scale{1, 1, 1};
  double gamma = 1;                // kernel: exp(-gamma · distance²)
  std::vector<int> support;        // how many support vectors each class has
  std::vector<Features> vectors;   // standardised, class after class
  std::vector<double> weights;     // classes − 1 rows of one for each vector: libsvm's dual coefficients
  std::vector<double> intercepts;  // of the pairs of classes (0,1), (0,2), …, (1,2), …

  int classes() const { return static_cast<int>(support.size()); }
};

/// Throws UsageError where the lists do not fit together or a number is not finite.
void check(const Svm& svm);

/// The class that wins most duels among those allowed, the first of several; -1 where none is. With all of them allowed
/// it is what scikit-learn predicts.
int vote(const Svm& svm, const Features& features, const std::vector<bool>& allowed);

}  // namespace lanecast
