// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "transport/ucx/libraries.h"
#include "transport/ucx/nics.h"

namespace lanecast::ucx {
namespace {

constexpr int kPrintValues = 1;  // UCS_CONFIG_PRINT_CONFIG
// UCX's names for the transports of each vendor, and how they begin one by one.
constexpr std::array<std::string_view, 5> kGpuTransports{"cuda", "gdr_copy", "rocm", "ze", "gaudi"};

/// "cuda_ipc", "cuda" and "cuda_copy:aux", but not "zero".
bool is_of_gpus(std::string_view transport) {
  transport = transport.substr(0, transport.find(':'));
  return std::ranges::any_of(kGpuTransports, [&](std::string_view name) {
    return transport == name || (transport.starts_with(name) && transport[name.size()] == '_');
  });
}

/// Is there a driver that modules of this vendor's GPUs could call?
bool has_driver(GpuVendor vendor) {
  const auto is_there = [](const char* path) { return access(path, F_OK) == 0; };
  if (vendor == GpuVendor::amd) return is_there("/dev/kfd");
  return is_there("/dev/nvidiactl") || is_there("/dev/dxg") || is_there("/dev/nvmap");  // also of WSL, of Jetson
}

/// Those to be named to this UCX: before 1.18 it complains where it has none of a name.
std::vector<std::string_view> to_name(const Ucp& ucp) {
  if (ucp.is_at_least(1, 18)) return {kGpuTransports.begin(), kGpuTransports.end()};
  const Library in_use = libraries(ucp.path()).front();
  std::vector<std::string_view> names;
  if (in_use.cuda && has_driver(GpuVendor::nvidia)) names = {"cuda", "gdr_copy"};
  if (in_use.rocm && has_driver(GpuVendor::amd)) names.emplace_back("rocm");
  return names;
}

}  // namespace

Settings::Settings(const Ucp& ucp, const std::string& device, Drivers drivers) : ucp_(ucp) {
  ucp_.check(ucp_.ucp_config_read(nullptr, nullptr, &config_), "ucp_config_read");
  if (!device.empty()) set("NET_DEVICES", device);
  if (drivers == Drivers::called) return;
  set("TLS", without_drivers(value_of("TLS"), to_name(ucp)));
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

std::string without_drivers(std::string_view transports, std::span<const std::string_view> to_name) {
  const bool excludes = transports.starts_with('^');
  std::istringstream names(std::string(transports.substr(excludes ? 1 : 0)));
  std::string others;
  bool all = false;
  for (std::string name; std::getline(names, name, ',');) {
    all |= !excludes && name == "all";
    if (!name.empty() && !is_of_gpus(name) && name != "all") others += (others.empty() ? "" : ",") + name;
  }
  if (!excludes && !all && !transports.empty()) return others;
  std::string excluded = excludes ? others : "";
  for (const std::string_view name : to_name) excluded.append(excluded.empty() ? "" : ",").append(name);
  return excluded.empty() ? "all" : "^" + excluded;
}

}  // namespace lanecast::ucx
