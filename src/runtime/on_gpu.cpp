// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU's memory: enqueued in the order of a stream, and looked after by whoever waits for them.
#include <algorithm>
#include <thread>

#include "algorithms/algorithms.h"
#include "runtime/device_work.h"
#include "runtime/exchange.h"
#include "runtime/started.h"

namespace lanecast {
namespace {

/// The device of memory of which the caller does not say it.
constexpr int kUnknownDevice = -1;

/// How long the device may still be at work when a peer has gone: one whose part is done may leave, and what it has
/// written is taken then.
constexpr auto kLastWrites = std::chrono::seconds(2);

}  // namespace

Bootstrap Communicator::among(Gathering gathering) const {
  gathering.me = static_cast<int>(std::ranges::find(gathering.ranks, rank()) - gathering.ranks.begin());
  gathering.timeout_s = options_.timeout_s.value_or(kTimeout_s);
  return bootstrap_over(router_, std::move(gathering));
}

Bootstrap Communicator::among_all(const std::string& what) const {
  return among({.ranks = topology_.everyone(), .what = what, .meanwhile = {}});
}

std::shared_ptr<GpuSide> Communicator::open_gpu(int device) {
  const std::string what = "the first call on a GPU";
  return std::make_shared<GpuSide>(
      among_all(what), topology_,
      GpuOptions{device, options_.gpu_library_folders, options_.kernel_cache, options_.allow_shared_gpu,
                 options_.max_ctas, options_.timeout_s.value_or(kTimeout_s)},
      GpuNeighbours{around_.hosts,
                    [&](const Ranks& ranks) { return among({.ranks = ranks, .what = what, .meanwhile = {}}); }});
}

GpuSide& Communicator::gpu(int device, std::unique_lock<std::mutex>& lock) {
  if (!gpu_) {
    drain(lock);
    if (device == kUnknownDevice)
      throw UsageError("rank " + std::to_string(rank()) + ": the buffers do not say on which GPU they lie; make the " +
                       "communicator with device=N");
    gpu_ = or_fail<UsageError>([&] { return open_gpu(device); });
  }
  if (device != kUnknownDevice && device != gpu_->device())
    throw UsageError("rank " + std::to_string(rank()) + ": the buffers lie on GPU " + std::to_string(device) +
                     ", and this communicator uses GPU " + std::to_string(gpu_->device()));
  return *gpu_;
}

void Communicator::enqueue_on(GpuSide& side, const Call& call, bool by_plan, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool in_place = check(call, rank(), size());
  // A call of which a part is enqueued has peers that wait for the rest.
  or_fail<UsageError>([&] {
    Call planned = call;
    planned.reproducible = by_plan && in_rank_order(call);  // peer memory always keeps that order
    if (!by_plan) return side.enqueue(planned, in_place, peer_engine_from(pinned_for(call)), stream);
    auto started = std::make_shared<Started>();
    started->on_gpu = side.enqueue(planned, in_place, [&] { return chosen_for_gpus(planned); }, *router_, stream);
    started->deadline.timeout_s = timeout_s_;
    last_on_gpu_ = started->work;
    started_.push_back(std::move(started));
  });
}

bool Communicator::goes_by_plan(GpuSide& side, const Call& call, int device, void* stream) const {
  if (device == kUnknownDevice) {
    side.require_own(call.in, "input");
    side.require_own(call.out, "output");
  }
  const std::string_view name = pinned_for(call);
  const bool by_peers = name.empty() ? hosts() == 1 : peer_engine_from(name).has_value();
  const std::string rank_says = "rank " + std::to_string(rank()) + ": ";
  if (by_peers && hosts() > 1)
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' moves memory among the GPUs of one host, and " +
                     "these ranks are on " + std::to_string(hosts()) + "; name another one, or none");
  if (by_peers && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) + ": calls by peer memory cut messages by " +
                     "themselves; give 0");
  if (by_peers) return false;
  if (!name.empty() && !has_algorithm(call.kind, topology_, name))
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' is unknown on GPUs; known: peer_kernel " +
                     "peer_two_shot copy_engine peer_direct on one host, and those of `lanecast plan algorithms`");
  const std::string through_host = "messages that pass through the host's memory";
  if (side.capturing(static_cast<gpu::Stream>(stream)))
    throw UsageError(rank_says + "no CUDA graph can capture a call with " + through_host + ", which no replay would " +
                     "send again; end the capture first");
  if (call.own_counts())
    throw UsageError(rank_says + "send_counts, recv_counts: a call on GPUs with " + through_host +
                     " needs counts that "
                     "all ranks know");
  refuse_without_threads();
  return true;
}

void Communicator::enqueue(const Call& call, int device, void* stream) {
  bool by_plan = false;
  {
    std::unique_lock lock = enter();
    refuse_if_failed();
    GpuSide& side = gpu(device, lock);
    look_at_gpu();
    by_plan = goes_by_plan(side, call, device, stream);
    enqueue_on(side, call, by_plan, stream);
  }
  if (by_plan) hand_to_thread();
}

std::shared_ptr<DeviceWork> Communicator::enqueue_async(const Call& call, int device, void* stream) {
  bool by_plan = false;
  std::shared_ptr<DeviceWork> work;
  {
    std::unique_lock lock = enter();
    refuse_if_failed();
    GpuSide& side = gpu(device, lock);
    look_at_gpu();
    by_plan = goes_by_plan(side, call, device, stream);
    side.order(static_cast<gpu::Stream>(stream), side.own_stream());
    enqueue_on(side, call, by_plan, side.own_stream());
    work = std::make_shared<DeviceWork>(*this, gpu_, side.own_stream());
  }
  if (by_plan) hand_to_thread();
  return work;
}

std::shared_ptr<ipc::SharedMemory> Communicator::allocate_symmetric(int device, std::size_t bytes) {
  std::unique_lock lock = enter();
  refuse_if_failed();
  GpuSide& side = gpu(device, lock);
  if (hosts() > 1)
    throw UsageError("rank " + std::to_string(rank()) + ": symmetric memory is for the GPUs of one host, and these " +
                     "ranks are on " + std::to_string(hosts()));
  drain(lock);
  std::shared_ptr<ipc::SharedMemory> memory;
  or_fail([&] { memory = side.allocate_symmetric(among_all("symmetric memory"), bytes); });
  return memory;
}

bool Communicator::open_window(std::shared_ptr<ipc::WindowMemory> memory) {
  const std::unique_lock lock = enter();
  refuse_if_failed();
  return gpu_ && gpu_->open_window(std::move(memory));
}

std::uint64_t Communicator::calls_by_windows() {
  const std::unique_lock lock = enter();
  return gpu_ ? gpu_->calls_by_windows() : 0;
}

void Communicator::use_gpu(int device) {
  std::unique_lock lock = enter();
  refuse_if_failed();
  gpu(device, lock);
}

void Communicator::check_gpu() {
  const std::unique_lock lock = enter();
  refuse_if_failed();
  if (gpu_) look_at_gpu();
}

void Communicator::look_at_gpu() {
  or_fail([&] {
    gpu_->raise_fault();
    heed("a call on its GPU");  // every time: what a peer's abort has ended here has ended without a word
  });
}

void Communicator::wait_for_gpu(const std::function<bool()>& done, const Interrupt& interrupt) {
  using Clock = std::chrono::steady_clock;
  auto looked = Clock::now();
  std::optional<Clock::time_point> lost;
  while (!done()) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    const auto now = Clock::now();
    if (now - looked < kLookEvery) continue;
    looked = now;
    const std::unique_lock lock = enter();
    if (failure_) raise(failure_);  // it is the one that this call waits for
    or_fail([&] {
      ask(interrupt);
      gpu_->raise_fault();
      const bool has_gone = lost_peer(lost && now - *lost >= kLastWrites);
      if (has_gone && !lost) lost = now;
    });
  }
  const std::unique_lock lock = enter();
  if (failure_) raise(failure_);
  look_at_gpu();
}

bool Communicator::lost_peer(bool is_final) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const Loss loss = router_->to(peer).lost(peer);
    if (!loss) continue;
    if (is_final || loss.cause) lose(peer, loss, "while its GPU was at work");
    return true;
  }
  return false;
}

void Communicator::synchronize(const Interrupt& interrupt) {
  std::shared_ptr<GpuSide> side;
  std::shared_ptr<Work> messages;
  {
    const std::unique_lock lock = enter();
    refuse_if_failed();
    side = gpu_;
    messages = last_on_gpu_;
  }
  if (side) wait_for_gpu([&] { return side->idle() && (!messages || messages->done()); }, interrupt);
}

void Communicator::finish_on_gpu() {
  std::shared_ptr<Work> messages;
  {
    const std::unique_lock lock = enter();
    messages = last_on_gpu_;
  }
  if (messages) messages->wait_done();
}

void DeviceWork::synchronize(const Interrupt& interrupt) const {
  communicator_.wait_for_gpu([this] { return done(); }, interrupt);
}

}  // namespace lanecast
