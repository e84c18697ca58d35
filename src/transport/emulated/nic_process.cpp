// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/nic_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/process.h"
#include "transport/emulated/control.h"
#include "transport/emulated/nic.h"

namespace lanecast::emulated {
namespace {

constexpr int kLook_ms = 100;
constexpr auto kForTheNext = std::chrono::seconds(10);  // after an elastic restart, say

/// What messages may lie in, if this process reaches any GPU. Throws where two of them do not reach each other.
std::optional<GpuVendor> gpus_here() {
  std::shared_ptr<const gpu::Driver> driver;
  try {
    driver = gpu::Driver::open();
  } catch (const UsageError&) {
    return {};  // messages in the hosts' memory need none
  }
  int count = 0;
  driver->check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount");
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b) {
      int can = 1;
      if (a != b) driver->check(driver->cuDeviceCanAccessPeer(&can, a, b), "cuDeviceCanAccessPeer");
      if (can == 0)
        throw UsageError("GPU " + std::to_string(a) + " has no peer access to GPU " + std::to_string(b) +
                         ": no copy engine can play a NIC between them; hide one (CUDA_VISIBLE_DEVICES)");
    }
  return driver->vendor();
}

/// None where it has ended already.
std::optional<Process> process_at(int pid) {
  try {
    return Process(pid);
  } catch (const TransportError&) {
    return {};
  }
}

class NicProcess {
 public:
  explicit NicProcess(const NicProcessOptions& options)
      : options_(options),
        fabric_(options.folder),
        gpus_(gpus_here()),
        listener_(listen_at(options.folder, options.host)),
        nics_(fabric_.state().nics) {
    if (options.host_index < 0 || options.host_index >= static_cast<int>(fabric_.state().hosts))
      throw UsageError("host " + std::to_string(options.host_index) + " is none of the network's " +
                       std::to_string(fabric_.state().hosts));
  }
  ~NicProcess() { stop_listening(options_.folder, options_.host); }
  NicProcess(const NicProcess&) = delete;
  NicProcess& operator=(const NicProcess&) = delete;

  void serve(const std::function<bool()>& may_go_on);

 private:
  struct Rank {
    FileDescriptor socket;
    Process process;        // none before it has attached
    std::uint32_t nic = 0;  // of this host
    std::uint64_t port = 0;
  };
  struct NicSlot {
    std::unique_ptr<Nic> nic;
    int pid = -1;   // the process that has it
    int ports = 0;  // of that
  };
  void look(std::vector<pollfd>& watched);
  bool answer(Rank& rank);
  Reply attach(Rank& rank, const NicRequest& request);
  void leave(Rank& rank);
  /// That of the process, else of the one that has started it, as a rank's helpers have; else one that nobody has.
  std::uint32_t slot_of(const Process& process);

  const NicProcessOptions options_;
  const Fabric fabric_;
  const std::optional<GpuVendor> gpus_;
  const FileDescriptor listener_;
  std::vector<NicSlot> nics_;
  std::deque<Rank> ranks_;
  std::vector<PortAddress> addresses_;
};

std::uint32_t NicProcess::slot_of(const Process& process) {
  for (const int pid : {process.id(), process.parent()})
    for (std::uint32_t k = 0; k < nics_.size(); ++k)
      if (nics_[k].ports > 0 && nics_[k].pid == pid) return k;
  const auto free = std::ranges::find(nics_, 0, &NicSlot::ports);
  if (free == nics_.end())
    throw UsageError("its " + std::to_string(nics_.size()) +
                     " NICs all have a rank's process already: the network was made for so many ranks of a host");
  return static_cast<std::uint32_t>(free - nics_.begin());
}

Reply NicProcess::attach(Rank& rank, const NicRequest& request) {
  if (request.ranks < 1 || request.ranks > static_cast<int>(kMostRanksOfPort))
    throw InternalError("a port of " + std::to_string(request.ranks) + " ranks");
  const Process process(request.port.pid);
  const std::uint32_t index = slot_of(process);
  NicSlot& slot = nics_[index];
  const std::uint32_t global = static_cast<std::uint32_t>(options_.host_index) * fabric_.state().nics + index;
  if (!slot.nic) slot = {.nic = std::make_unique<Nic>(fabric_, global), .pid = process.id()};
  rank.port = slot.nic->attach(request.port, request.ranks);
  ++slot.ports;
  rank.process = process;
  rank.nic = index;
  Reply reply;
  reply.nic = global;
  reply.pid = getpid();
  reply.gpus = gpus_ ? static_cast<int>(*gpus_) : Reply::kNoGpus;
  return reply;
}

bool NicProcess::answer(Rank& rank) {
  const std::optional<NicRequest> request = receive_request(rank.socket, addresses_);
  if (!request) return false;
  Reply reply;
  try {
    switch (request->what) {
      case NicRequest::What::attach:
        reply = attach(rank, *request);
        break;
      case NicRequest::What::meet:
        nics_[rank.nic].nic->meet(rank.port, request->rank, addresses_);
        break;
      case NicRequest::What::open:
        nics_[rank.nic].nic->open(rank.port, request->key);
        break;
    }
    reply.good = true;
  } catch (const Error& error) {
    reply = Reply::refusal(error.what());
  }
  return send(rank.socket, reply);
}

void NicProcess::leave(Rank& rank) {
  if (rank.process.id() < 0) return;
  NicSlot& slot = nics_[rank.nic];
  slot.nic->detach(rank.port);
  if (--slot.ports == 0) slot = {};
}

void NicProcess::look(std::vector<pollfd>& watched) {
  watched.assign(1, {listener_.get(), POLLIN, 0});
  for (const Rank& rank : ranks_) watched.push_back({rank.socket.get(), POLLIN, 0});
  if (poll(watched.data(), watched.size(), kLook_ms) <= 0) return;
  for (std::size_t k = watched.size() - 1; k > 0; --k) {
    if (watched[k].revents == 0) continue;
    const auto rank = ranks_.begin() + static_cast<std::ptrdiff_t>(k - 1);
    if (answer(*rank)) continue;
    leave(*rank);
    ranks_.erase(rank);
  }
  if (watched[0].revents == 0) return;
  // A process that a rank has forked may hold its socket open, and would keep its NIC from whoever comes now.
  std::erase_if(ranks_, [this](Rank& rank) {
    const bool ended = rank.process.id() >= 0 && rank.process.has_ended();
    if (ended) leave(rank);
    return ended;
  });
  FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.get() >= 0) ranks_.emplace_back().socket = std::move(socket);
}

void NicProcess::serve(const std::function<bool()>& may_go_on) {
  using Clock = std::chrono::steady_clock;
  const std::optional<Process> starter = process_at(options_.starter);
  Clock::time_point needed = Clock::now();
  std::vector<pollfd> watched;
  while (may_go_on()) {
    look(watched);
    const auto now = Clock::now();
    if (!ranks_.empty() || options_.starter == 0 || (starter && !starter->has_ended())) needed = now;
    if (now - needed > kForTheNext) return;
  }
}

}  // namespace

void run_nic_process(const NicProcessOptions& options, const std::function<void()>& ready,
                     const std::function<bool()>& may_go_on) {
  NicProcess process(options);
  ready();
  process.serve(may_go_on);
}

}  // namespace lanecast::emulated
