// SPDX-License-Identifier: Apache-2.0
#include "transport/emulated/nic.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"

namespace lanecast::emulated {
namespace {

/// For so long a NIC looks for work before it sleeps, where the machine has cores to spare: a wake takes some 50 us,
/// which no NIC takes, and calls that are timed follow each other within this time.
constexpr std::uint64_t kLooks_ns = 20'000'000;
constexpr std::uint64_t kSleeps_ns = 20'000'000;
/// A timer wakes a thread some 50 us late: what is due within that time is looked for.
constexpr std::uint64_t kTimerIsLate_ns = 80'000;
constexpr int kCoresToSpare = 8;
constexpr int kMostAtOnce = 64;  // segments, before those that are due are looked at

/// The machine may have more, of which a container gets a few.
int cores_to_run_on() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return CPU_COUNT(&cores);
}

}  // namespace

Nic::Nic(const Fabric& fabric, std::uint32_t index)
    : fabric_(fabric), index_(index), clock_(fabric.state(), fabric.nic(index)), thread_([this] { work(); }) {}

Nic::~Nic() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ring(fabric_.nic(index_));
  thread_.join();
}

std::uint64_t Nic::attach(const PortAddress& port, int ranks) {
  const FileDescriptor file = open_memory_of(port.pid, port.fd, port.file);
  PortMemory memory(Mapping(file, PortMemory::bytes(ranks)));
  const std::lock_guard lock(mutex_);
  ports_.push_back({.number = next_, .memory = std::move(memory), .peers = {}, .flows = {}});
  return next_++;
}

Nic::Port& Nic::at(std::uint64_t number) { return *std::ranges::find(ports_, number, &Port::number); }

void Nic::meet(std::uint64_t number, int rank, const std::vector<PortAddress>& all) {
  std::vector<Peer> peers;
  for (const PortAddress& port : all) {
    const FileDescriptor file = open_memory_of(port.pid, port.fd, port.file);
    peers.push_back({PortMemory(Mapping(file, PortMemory::bytes(static_cast<int>(all.size())))), port.nic});
  }
  const std::lock_guard lock(mutex_);
  Port& port = at(number);
  port.peers = std::move(peers);
  for (int peer = 0; peer < static_cast<int>(port.peers.size()); ++peer) {
    if (peer == rank) continue;
    const PortMemory& there = port.peers[peer].memory;
    for (const Queue queue : {Queue::messages, Queue::puts})
      port.flows.emplace_back(QueuePair::Ends{port.memory, there, fabric_.nic(port.peers[peer].nic),
                                              port.memory.works(peer, queue), there.arrivals(rank, queue)});
  }
}

void Nic::open(std::uint64_t number, std::uint32_t key) {
  const std::lock_guard lock(mutex_);
  const PortMemory& memory = at(number).memory;
  if (key >= kMostRegistrations) throw InternalError("no key of GPU memory: " + std::to_string(key));
  const std::string bus_id = memory.head().memory[key].bus_id.data();
  if (!engine_) engine_ = std::make_unique<Engine>(bus_id);
  if (engine_->device().pci_bus_id() != bus_id)
    throw UsageError(fabric_.name_of(index_) + " copies by GPU " + engine_->device().pci_bus_id() +
                     ", and memory of GPU " + bus_id + " was named: a process has one GPU here");
  const gpu::Device::Current current(engine_->device());
  engine_->locate(memory, {key, 0}, 0);
}

void Nic::detach(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto port = std::ranges::find(ports_, number, &Port::number);
  if (port == ports_.end()) return;
  if (engine_) {
    const gpu::Device::Current current(engine_->device());
    engine_->forget(port->memory);
    for (const Peer& peer : port->peers) engine_->forget(peer.memory);
  }
  ports_.erase(port);
}

void Nic::fail(Port& port, const std::string& why) {
  port.flows.clear();
  PortHead& head = port.memory.head();
  head.why[why.copy(head.why.data(), head.why.size() - 1)] = '\0';
  // Release: the rank that sees that it has failed sees why.
  head.failed.store(1, std::memory_order_release);
}

std::uint64_t Nic::begin_segments() {
  // One segment at a time, of the queue pair that can begin first: no long put holds up what goes elsewhere.
  for (int begun = 0; begun < kMostAtOnce; ++begun) {
    QueuePair* first = nullptr;
    QueuePair::Turn least{.start_ns = UINT64_MAX};
    for (Port& port : ports_)
      for (QueuePair& flow : port.flows)
        if (const auto its = flow.turn(clock_); its && *its < least) first = &flow, least = *its;
    if (!first || least.start_ns > now_ns()) return least.start_ns;
    first->begin_segment(clock_);
  }
  return 0;
}

std::uint64_t Nic::step() {
  const std::lock_guard lock(mutex_);
  std::optional<gpu::Device::Current> current;
  if (engine_) {
    current.emplace(engine_->device());
    engine_->close_withdrawn();
  }
  std::uint64_t quiet_until = begin_segments();
  for (Port& port : ports_) {
    try {
      bool moved = false;
      for (QueuePair& flow : port.flows) {
        try {
          moved |= flow.launch(clock_, engine_.get(), now_ns());
        } catch (const Withdrawn&) {
          flow.end();
        }
        moved |= flow.finish(clock_, engine_.get(), now_ns());
        quiet_until = std::min(quiet_until, flow.quiet_until_ns(clock_));
      }
      if (moved) quiet_until = 0;
    } catch (const Error& error) {
      fail(port, error.what());
    }
  }
  return quiet_until;
}

void Nic::work() {
  NicState& own = fabric_.nic(index_);
  const bool may_look = cores_to_run_on() >= kCoresToSpare;
  std::uint64_t idle_since = now_ns();
  for (;;) {
    const std::uint32_t rings = own.rings.load(std::memory_order_seq_cst);  // before the look for work
    const std::uint64_t quiet_until = step();
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
    }
    const std::uint64_t now = now_ns();
    if (quiet_until == 0) {
      idle_since = now;
      if (!may_look) std::this_thread::yield();
      continue;
    }
    if (may_look && (now - idle_since < kLooks_ns || quiet_until - std::min(now, quiet_until) < kTimerIsLate_ns))
      continue;
    // What is due and cannot go on waits for a receiver, who does not ring.
    const std::uint64_t wait = quiet_until <= now ? 50'000 : quiet_until - now;
    sleep(own, rings, std::chrono::nanoseconds(std::min(kSleeps_ns, wait)));
  }
}

}  // namespace lanecast::emulated
