// SPDX-License-Identifier: Apache-2.0
// Dependencies read forwards: which steps a finished step lets go.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.h"

namespace lanecast {

class Successors {
 public:
  explicit Successors(const Plan& plan);

  /// How many steps each step waits for.
  const std::vector<std::uint32_t>& waits() const { return waits_; }
  std::span<const std::uint32_t> of(std::size_t step) const {
    return {steps_.data() + first_[step], first_[step + 1] - first_[step]};
  }

 private:
  std::vector<std::uint32_t> waits_;
  std::vector<std::uint32_t> first_;
  std::vector<std::uint32_t> steps_;  // successors of step i: [first_[i], first_[i + 1])
};

}  // namespace lanecast
