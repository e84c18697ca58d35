// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/nics.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace lanecast::ucx {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

}  // namespace

std::vector<std::string> devices() {
  const char* named = std::getenv("UCX_NET_DEVICES");
  std::vector<std::string> found;
  std::istringstream list(named ? named : "");
  for (std::string device; std::getline(list, device, ',');)
    if (!device.empty() && device != "all") found.push_back(device);
  return found;
}

bool has_any(const char* class_of_devices) {
  std::error_code unreadable;
  const fs::path devices = fs::path("/sys/class") / class_of_devices;
  return is_there(devices) && !fs::is_empty(devices, unreadable);
}

bool over_tcp(const std::vector<std::string>& devices) {
  if (devices.empty()) return !has_any("infiniband");
  return std::ranges::all_of(devices, [](const std::string& device) { return is_there("/sys/class/net/" + device); });
}

bool reach(GpuVendor vendor) {
  if (over_tcp(devices()) || !has_any("infiniband")) return false;
  // The kernel's parts that it takes, which UCX looks for as well.
  if (vendor == GpuVendor::amd) return is_there("/dev/kfd");
  return is_there("/sys/module/nvidia_peermem/version") || is_there("/sys/module/nv_peer_mem/version") ||
         is_there("/sys/kernel/mm/memory_peers/nv_mem/version");
}

}  // namespace lanecast::ucx
