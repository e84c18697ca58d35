// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/own_port.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/agreed.h"
#include "base/error.h"

namespace lanecast::emulated {
namespace {

constexpr auto kAnswersWithin = std::chrono::seconds(30);  // opening a GPU takes a NIC process seconds at times
constexpr auto kLetsGoWithin = std::chrono::seconds(1);

struct PortIntroduction {
  PortAddress port;
  int nic_pid = 0;
};

}  // namespace

OwnPort::OwnPort(const Bootstrap& bootstrap, const std::string& folder, const std::string& host)
    : rank_(bootstrap.rank),
      fabric_(agreed(bootstrap, [&] { return Fabric(folder); })),
      host_(host),
      peers_(static_cast<std::size_t>(bootstrap.size)) {
  const int size = bootstrap.size;
  const PortIntroduction mine = agreed(bootstrap, [&]() -> PortIntroduction {
    if (size > static_cast<int>(kMostRanksOfPort))
      throw UsageError("emulated NICs: " + std::to_string(size) + " ranks, and a communicator may have " +
                       std::to_string(kMostRanksOfPort));
    const std::size_t bytes = PortMemory::bytes(size);
    file_ = make_memory(bytes);
    Mapping mapping(file_, bytes);
    mapping.reserve(mapping.data(), bytes);
    memory_ = PortMemory(std::move(mapping));
    socket_ = connect_to(folder, host);
    const PortAddress address{.pid = getpid(), .fd = file_.get(), .file = id_of(file_)};
    const Reply reply = ask({.what = NicRequest::What::attach, .rank = rank_, .ranks = size, .port = address});
    nic_ = reply.nic;
    nic_process_ = Process(reply.pid);
    if (reply.gpus != Reply::kNoGpus) gpus_ = static_cast<GpuVendor>(reply.gpus);
    return {{address.pid, address.fd, address.file, reply.nic}, reply.pid};
  });
  std::vector<PortIntroduction> all(static_cast<std::size_t>(size));
  bootstrap.all_gather(&mine, all.data(), sizeof mine);
  agreed(bootstrap, [&] {
    std::vector<PortAddress> ports;
    for (int r = 0; r < size; ++r) {
      ports.push_back(all[r].port);
      peers_[r] = {Process(all[r].port.pid), Process(all[r].nic_pid), all[r].port.nic};
    }
    ask({.what = NicRequest::What::meet, .rank = rank_, .ranks = size, .port = {}}, ports);
    return true;
  });
}

OwnPort::~OwnPort() { withdraw_all(); }

Reply OwnPort::ask(const NicRequest& request, std::span<const PortAddress> ports) const {
  const std::optional<Reply> reply =
      send(socket_, request, ports) ? receive_reply(socket_, kAnswersWithin) : std::nullopt;
  if (!reply)
    throw TransportError("rank " + std::to_string(rank_) + ": the NIC process of host " + host_ +
                         " does not answer; if it has ended, start the job anew");
  if (!reply->good) throw UsageError("the NIC process of host " + host_ + ": " + reply->why.data());
  return *reply;
}

void OwnPort::enroll(const GpuSpan& memory) {
  if (memory.memory.bytes == 0 || enrolled_.contains(memory.memory.data)) return;
  PortHead& head = memory_.head();
  for (std::uint32_t key = 0; key < kMostRegistrations; ++key) {
    Registration& entry = head.memory[key];
    if (!entry.free()) continue;
    entry.handle = memory.handle;
    entry.bus_id = memory.bus_id;
    entry.bytes = memory.memory.bytes;
    // Release: a NIC that finds it known finds all of it.
    entry.known.store(1, std::memory_order_release);
    enrolled_[memory.memory.data] = {memory.memory.bytes, key};
    try {
      ask({.what = NicRequest::What::open, .rank = rank_, .port = {}, .key = key});
    } catch (const Error&) {
      withdraw(memory.memory.data);  // who asks again is told again
      throw;
    }
    return;
  }
  throw UsageError("emulated NICs: a communicator may name " + std::to_string(kMostRegistrations) +
                   " pieces of GPU memory at a time");
}

void OwnPort::withdraw(const std::byte* begin) {
  const auto found = enrolled_.find(begin);
  if (found == enrolled_.end()) return;
  const Registration& entry = memory_.head().memory[found->second.key];
  forbid(found->second.key);
  enrolled_.erase(found);
  await_let_go([&] { return entry.free(); });
}

void OwnPort::withdraw_all() {
  if (enrolled_.empty()) return;
  for (const auto& [begin, enrolled] : enrolled_) forbid(enrolled.key);
  await_let_go([this] {
    return std::ranges::all_of(enrolled_,
                               [this](const auto& its) { return memory_.head().memory[its.second.key].free(); });
  });
  enrolled_.clear();
}

void OwnPort::forbid(std::uint32_t key) {
  memory_.head().memory[key].known.store(0, std::memory_order_seq_cst);  // NICs look at it again and again
}

template <class LetGo>
void OwnPort::await_let_go(const LetGo& let_go) {
  for (const Peer& peer : peers_) emulated::ring(fabric_.nic(peer.nic_index));
  const auto end = std::chrono::steady_clock::now() + kLetsGoWithin;
  while (nics_let_go_ && !let_go()) {
    // One that was killed lets go of nothing: that is waited for once.
    nics_let_go_ = std::chrono::steady_clock::now() < end;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

std::optional<RegisteredPlace> OwnPort::find(const std::byte* data) const {
  auto after = enrolled_.upper_bound(data);
  if (after == enrolled_.begin()) return {};
  --after;
  const auto offset = static_cast<std::size_t>(data - after->first);
  if (offset >= after->second.bytes) return {};
  return RegisteredPlace{after->second.key, offset};
}

std::string OwnPort::trouble(int peer) const {
  const auto ended = [](const Process& process, const std::string& whose) {
    return process.has_ended() ? whose + " (process " + std::to_string(process.id()) + ") has ended" : std::string();
  };
  if (std::string own = ended(nic_process_, "the NIC process of this rank's host " + host_); !own.empty()) return own;
  // Acquire: the words are there once it has failed.
  if (memory_.head().failed.load(std::memory_order_acquire) != 0)
    return fabric_.name_of(nic_) + " has failed: " + memory_.head().why.data();
  const Peer& to = peers_.at(peer);
  if (to.nic.id() != nic_process_.id())  // else it has been asked, and may have ended since
    if (std::string theirs = ended(to.nic, "the NIC process of its host, with " + fabric_.name_of(to.nic_index) + ",");
        !theirs.empty())
      return theirs;
  return ended(to.process, "its process");
}

}  // namespace lanecast::emulated
