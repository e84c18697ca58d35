// SPDX-License-Identifier: Apache-2.0
// A support vector machine over a few features, evaluated as scikit-learn's SVC evaluates it (one against one, RBF
// kernel).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanecast {

inline constexpr std::size_t kFeatures = 3;
using Features = std::array<double, kFeatures>;

/// Each feature's values once, since vectors are points of a grid: an exponential then is one of a value.
class SupportVectors {
 public:
  void push_back(const Features& vector);
  std::size_t size() const { return at_.size(); }
  Features operator[](std::size_t k) const;
  /// exp(-gamma · distance²) of each.
  std::vector<double> kernel(double gamma, const Features& from) const;

  /// For who sends or takes them whole.
  template <class Archive>
  void each_field(Archive& archive) {
    archive(values_[0], values_[1], values_[2], at_);
  }

 private:
  std::array<std::vector<double>, kFeatures> values_;
  std::vector<std::array<std::uint32_t, kFeatures>> at_;  // of each vector, among the values
};

/// Trained elsewhere. Features are standardised by mean and scale first.
struct Svm {
  Features mean{};
  Features scale{1, 1, 1};
  double gamma = 1;                // kernel: exp(-gamma · distance²)
  std::vector<int> support;        // how many support vectors each class has
  SupportVectors vectors;          // standardised, class after class
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
