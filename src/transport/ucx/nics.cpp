// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/nics.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
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

std::string nics_here() {
  std::map<std::string, bool> is_up;  // of each interface there is an entry for each kind of address
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) == 0) {
    for (const ifaddrs* each = interfaces; each; each = each->ifa_next)
      is_up[each->ifa_name] |= (each->ifa_flags & IFF_UP) != 0;
    freeifaddrs(interfaces);
  }
  std::error_code none;
  for (const fs::directory_entry& nic : fs::directory_iterator("/sys/class/infiniband", none))
    is_up[nic.path().filename().string()] = true;
  std::string text;
  for (const auto& [name, up] : is_up) text += (text.empty() ? "" : ", ") + name + (up ? "" : " (down)");
  return text.empty() ? "no NIC" : text;
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
