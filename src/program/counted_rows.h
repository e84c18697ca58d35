// SPDX-License-Identifier: Apache-2.0
// Which row of the table of counts a program's operands name, where counts come with the launch.
#pragma once

#include <optional>
#include <vector>

#include "program/program.h"

namespace lanecast {

class CountedRows {
 public:
  CountedRows(const Plan& plan, CountsKnown counts);

  /// From 1; 0 where there is no table. In scratch memory any row of the part serves.
  std::uint32_t of(std::int32_t part, gpu::Space space) const;
  const std::optional<CountedParts>& parts() const { return parts_; }

 private:
  std::optional<CountedParts> parts_;
  std::vector<std::uint32_t> in_, out_;  // by part, from 1
};

}  // namespace lanecast
