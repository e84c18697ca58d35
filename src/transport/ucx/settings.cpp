// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/settings.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "transport/ucx/nics.h"

namespace lanecast::ucx {
namespace {

constexpr int kPrintValues = 1;  // UCS_CONFIG_PRINT_CONFIG
// UCX's names for the transports of each vendor, and how they begin one by one.
constexpr std::array kGpuTransports{"cuda", "gdr_copy", "rocm", "ze", "gaudi"};

/// "cuda_ipc", "cuda" and "cuda_copy:aux", but not "zero".
bool is_of_gpus(std::string_view transport) {
  transport = transport.substr(0, transport.find(':'));
  return std::ranges::any_of(kGpuTransports, [&](std::string_view name) {
    return transport == name || (transport.starts_with(name) && transport[name.size()] == '_');
  });
}

}  // namespace

Settings::Settings(const Ucp& ucp, const std::string& device, Drivers drivers) : ucp_(ucp) {
  ucp_.check(ucp_.ucp_config_read(nullptr, nullptr, &config_), "ucp_config_read");
  if (!device.empty()) set("NET_DEVICES", device);
  if (drivers == Drivers::called) return;
  set("TLS", without_drivers(value_of("TLS")));
  // Until then it complains of each name to leave out that it does not know.
  if (!ucp.is_at_least(1, 18)) set("WARN_INVALID_CONFIG", "n");
  // A GPU's memory is reached by rendezvous alone then: what else UCX has for it are copies by the driver.
  const bool is_named = value_of("RNDV_THRESH").find_first_of("0123456789") != std::string::npos;
  if (!is_named && (reach(GpuVendor::nvidia) || reach(GpuVendor::amd))) set("RNDV_THRESH", std::to_string(kLeastOnGpu));
}

std::string Settings::value_of(std::string_view name) const {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const memory = open_memstream(&text, &bytes);
  if (memory == nullptr) return {};
  ucp_.ucp_config_print(config_, memory, nullptr, kPrintValues);
  std::fclose(memory);
  const std::unique_ptr<char, decltype(&std::free)> kept(text, std::free);
  std::istringstream lines(std::string(text, bytes));
  const std::string begin = "UCX_" + std::string(name) + "=";
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin)) return line.substr(begin.size());
  return {};
}

void Settings::set(const char* name, const std::string& value) {
  ucp_.check(ucp_.ucp_config_modify(config_, name, value.c_str()), "ucp_config_modify");
}

std::string without_drivers(std::string_view transports) {
  const bool excludes = transports.starts_with('^');
  std::istringstream names(std::string(transports.substr(excludes ? 1 : 0)));
  std::string others;
  bool all = false;
  for (std::string name; std::getline(names, name, ',');) {
    all |= !excludes && name == "all";
    if (!name.empty() && !is_of_gpus(name) && name != "all") others += (others.empty() ? "" : ",") + name;
  }
  if (!excludes && !all && !transports.empty()) return others;
  std::string excluded = "^";
  if (excludes && !others.empty()) excluded += others + ",";
  for (const char* const name : kGpuTransports) excluded.append(name).append(name == kGpuTransports.back() ? "" : ",");
  return excluded;
}

}  // namespace lanecast::ucx
