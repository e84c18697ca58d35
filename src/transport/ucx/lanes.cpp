// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/lanes.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "transport/span_cursor.h"

namespace lanecast::ucx {
namespace {

namespace fs = std::filesystem;

// Between two hosts of two ranks with 4 cores and a NIC each, two were faster and slower, 16 % either way, and four
// took 1.1 to 1.7 times as long.
constexpr int kLanesOfNic = 1;
constexpr std::size_t kAligned = 4096;  // shares but the last are so many bytes, or times as many

/// Those that UCX has been told to use; empty: it chooses.
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
  return fs::exists(devices, unreadable) && !fs::is_empty(devices, unreadable);
}

/// Does the kernel carry the messages, and not the NIC by itself?
bool over_tcp(const std::vector<std::string>& devices) {
  std::error_code unreadable;
  if (devices.empty()) return !has_any("infiniband");
  return std::ranges::all_of(
      devices, [&](const std::string& device) { return fs::exists("/sys/class/net/" + device, unreadable); });
}

}  // namespace

int lanes_that_pay(int ranks) {
  const std::vector<std::string> nics = devices();
  if (!over_tcp(nics)) return 0;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  const int spare = CPU_COUNT(&cores) / ranks - 1;
  return std::clamp(spare, 0, kLanesOfNic * std::max(1, static_cast<int>(nics.size())));
}

bool better_than_mpi(int lanes, bool asked_for) {
  if (lanes == 0 || (!asked_for && devices().empty())) return false;
  return !has_any("infiniband") && !has_any("cxi_user") && Ucp::found();  // the latter is Slingshot
}

Lanes::Lanes(const Bootstrap& bootstrap, int wanted) {
  std::vector<int> all(bootstrap.size);
  bootstrap.all_gather(&wanted, all.data(), sizeof wanted);
  const std::vector<std::string> nics = devices();
  for (int k = 0; k < *std::ranges::min_element(all); ++k)
    lanes_.push_back(std::make_unique<Lane>(bootstrap, nics.empty() ? std::string() : nics[k % nics.size()]));
}

void Lanes::connect(std::span<const int> peers) {
  for (const auto& lane : lanes_) lane->connect(peers);
  for (const auto& lane : lanes_) lane->await_connected();
}

void Lanes::post(const Message& message, std::uint64_t tag, bool receive, void* owner, std::vector<Share>& shares) {
  shares.assign(count(), {});
  const std::size_t all = message.bytes - kHead, each = (message.bytes / count() + kAligned - 1) / kAligned * kAligned;
  for (std::size_t k = 0, from = 0; k < count(); ++k) {
    // The head goes through the first lane's NIC, the one that UCX takes for the worker: of chunks of 1 MiB on two NICs
    // the first had 53 % when shares were equal.
    const std::size_t part = k == 0 ? each - std::min(each, kHead) : each;
    const std::size_t bytes = k + 1 < count() ? std::min(part, all - from) : all - from;
    Share& share = shares[k];
    share.owner = owner;
    share.peer = message.peer;
    share.tag = tag;
    share.receive = receive;
    share.memory = part_of(message.memory, kHead + from, bytes);
    share.bytes = bytes;
    lanes_[k]->post(share);
    from += bytes;
  }
}

void Lanes::take_ended(std::vector<Share*>& ended) {
  for (const auto& lane : lanes_) lane->take_ended(ended);
}

void Lanes::give_up() {
  for (const auto& lane : lanes_) lane->give_up();
}

void Lanes::await_over() {
  for (const auto& lane : lanes_) lane->await_over();
}

std::vector<Span> part_of(std::span<const Span> memory, std::size_t from, std::size_t bytes) {
  std::vector<Span> part;
  SpanCursor cursor(memory);
  cursor.skip(from);
  for (; bytes > 0; bytes -= part.back().bytes) part.push_back(cursor.take(bytes));
  return part;
}

}  // namespace lanecast::ucx
