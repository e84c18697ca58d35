// SPDX-License-Identifier: Apache-2.0
// What a user may say of the links between hosts: to time them, to assume them, or their latency and rate.
#pragma once

#include <cstdint>
#include <string_view>

namespace lanecast {

struct LinkPolicy {
  enum class Way : std::uint8_t { measure, assume, given };
  Way way = Way::measure;
  double alpha_s = 0, beta_s_per_byte = 0;  // where they are given
};

/// "measure" or "", "assume", or a latency and a rank's rate: "12us,50GBps", "30us,10gbit". Throws UsageError for
/// anything else.
LinkPolicy link_policy_from(std::string_view text);

}  // namespace lanecast
