// SPDX-License-Identifier: Apache-2.0
#include "runtime/wires/link_policy.h"

#include <charconv>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"

namespace lanecast {
namespace {

struct Unit {
  std::string_view name;
  double value;
};
constexpr Unit kTimes[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit kRates[] = {{"kBps", 1e3},       {"MBps", 1e6},       {"GBps", 1e9},
                           {"kbit", 1e3 / 8.0}, {"mbit", 1e6 / 8.0}, {"gbit", 1e9 / 8.0}};
// Beyond these a value is a slip of the pen: between the next memory and the moon, a modem and a whole machine.
constexpr double kLeastTime = 1e-8, kMostTime = 10, kLeastRate = 1e3, kMostRate = 1e13;

std::optional<double> number_with(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return {};
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units)
    if (unit.name == name) return value * unit.value;
  return {};
}

}  // namespace

LinkPolicy link_policy_from(std::string_view text) {
  if (text.empty() || text == "measure") return {};
  if (text == "assume") return {.way = LinkPolicy::Way::assume};
  const std::size_t comma = text.find(',');
  if (comma != std::string_view::npos) {
    const auto alpha_s = number_with(text.substr(0, comma), kTimes);
    const auto rate = number_with(text.substr(comma + 1), kRates);
    // Not `< least`, which a NaN would pass.
    if (alpha_s && rate && *alpha_s >= kLeastTime && *alpha_s <= kMostTime && *rate >= kLeastRate && *rate <= kMostRate)
      return {LinkPolicy::Way::given, *alpha_s, 1 / *rate};
  }
  throw UsageError("links: '" + std::string(text) +
                   "' is neither measure nor assume, nor a latency of 10ns to 10s and the rate of a rank, of 1kBps to "
                   "10000GBps, such as 12us,50GBps or 30us,10gbit");
}

}  // namespace lanecast
