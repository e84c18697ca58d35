// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU's memory: enqueued in the order of a stream, and looked after by whoever waits for them.
#include <algorithm>
#include <thread>

#include "algorithms/algorithms.h"
#include "runtime/device_work.h"
#include "runtime/exchange.h"
#include "runtime/message_places.h"
#include "runtime/started.h"

namespace lanecast {
namespace {

/// The device of memory of which the caller does not say it.
constexpr int kUnknownDevice = -1;

/// The algorithm that stands for a library's own collectives.
constexpr std::string_view kNative = "native";

/// How long the device may still be at work when a peer has gone: one whose part is done may leave, and what it has
/// written is taken then.
constexpr auto kLastWrites = std::chrono::seconds(2);

}  // namespace

Bootstrap Communicator::among(Gathering gathering) const {
  gathering.me = static_cast<int>(std::ranges::find(gathering.ranks, rank()) - gathering.ranks.begin());
  gathering.timeout_s = timeout_s_;
  return bootstrap_over(router_, std::move(gathering));
}

Bootstrap Communicator::among_all(const std::string& what) const {
  return among({.ranks = topology_.everyone(), .what = what, .meanwhile = {}});
}

std::shared_ptr<GpuSide> Communicator::open_gpu(int device) {
  const std::string what = "the first call on a GPU";
  auto side = std::make_shared<GpuSide>(
      among_all(what), topology_,
      GpuOptions{device, options_.gpu_library_folders, options_.kernel_cache, options_.allow_shared_gpu,
                 options_.max_ctas, timeout_s_,
                 [&](const gpu::Device& opened) {
                   return naming("LANECAST_GPU_MESSAGES", options_, [&] {
                     return messages_on_device(options_.gpu_messages, opened, *router_, rank(), around_.hosts);
                   });
                 }},
      GpuNeighbours{around_.hosts,
                    [&](const Ranks& ranks) { return among({.ranks = ranks, .what = what, .meanwhile = {}}); }});
  side->choose_by(models_.peers);
  return side;
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

std::unique_lock<std::mutex> Communicator::enter_queue() {
  refuse_entry();
  return std::unique_lock(queue_mutex_);
}

std::optional<StagedCall> Communicator::enqueue_on(GpuSide& side, const Call& call, GpuWay way, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  const bool in_place = check(call, rank(), size());
  std::optional<StagedCall> rest;
  side.set_timeout(timeout_s_);
  // A call of which a part is enqueued has peers that wait for the rest.
  or_fail<UsageError>([&] {
    Call planned = call;
    planned.reproducible = way == GpuWay::plan && in_rank_order(call);  // peer memory always keeps that order
    if (way == GpuWay::peers) return side.enqueue(planned, in_place, peer_engine_from(pinned_for(call)), stream);
    auto started = std::make_shared<Started>();
    if (way == GpuWay::native) {
      started->on_gpu = side.enqueue_native(planned, in_place, *router_, stream);
    } else {
      GpuSide::Staged staged = side.prepare(planned, in_place, [&] { return chosen_for_gpus(planned); }, *router_);
      started->on_gpu = std::move(staged.host);
      rest = std::move(staged.device);
    }
    started->deadline.timeout_s = timeout_s_;
    last_on_gpu_ = started->work;
    started_.push_back(std::move(started));
  });
  return rest;
}

void Communicator::enqueue_rest(GpuSide& side, const StagedCall& call, void* behind, void* on) {
  const auto stream = static_cast<gpu::Stream>(on);
  try {
    if (behind != on) side.order(static_cast<gpu::Stream>(behind), stream);
    side.enqueue(call, stream);
  } catch (const std::exception& error) {
    const std::unique_lock lock = enter();
    if (!failure_) fail(failure_of(error));
    throw;
  }
}

std::string Communicator::not_native(const Call& call) const {
  if (const std::string what = nccl::missing(call.kind, call.dtype, call.op); !what.empty())
    return what + ": NCCL has none, or another than Lanecast's kernels";
  if (call.own_counts()) return "send_counts, recv_counts: NCCL has none";
  if (std::ranges::any_of(call.counts, [&](std::size_t count) { return count != call.counts[0]; }))
    return "counts: NCCL's are equal on all ranks";
  if (call.chunks) return "chunks=" + std::to_string(call.chunks) + ": NCCL cuts messages by itself; give 0";
  if (in_rank_order(call)) return "reproducible: NCCL adds in an order of its own";
  return {};
}

void Communicator::open_native(GpuSide& side, std::unique_lock<std::mutex>& lock) {
  if (side.has_native()) return;
  drain(lock);
  or_fail<UsageError>([&] {
    side.open_native(among_all("the first call by NCCL"), options_.gpu_library_folders,
                     [this](double waited_s) { keep_waiting_for_nccl(waited_s); });
  });
}

void Communicator::open_staging(GpuSide& side, void* stream, std::unique_lock<std::mutex>& lock) {
  if (side.has_staging()) return;
  if (side.capturing(static_cast<gpu::Stream>(stream)))
    throw UsageError("rank " + std::to_string(rank()) + ": no CUDA graph can capture a communicator's first call by " +
                     "algorithm 'copy_engine', which takes memory for it; make one before the capture");
  drain(lock);
  or_fail<UsageError>([&] { side.open_staging(among_all("the first call by copy engines")); });
}

void Communicator::open_for(GpuSide& side, const Call& call, GpuWay way, void* stream,
                            std::unique_lock<std::mutex>& lock) {
  if (way == GpuWay::native) open_native(side, lock);
  if (way == GpuWay::peers && peer_engine_from(pinned_for(call)) == PeerEngine::copy_engine)
    open_staging(side, stream, lock);
}

void Communicator::keep_waiting_for_nccl(double waited_s) {
  end_if_aborted();
  lost_peer(waited_s >= std::chrono::duration<double>(kLastWrites).count());
  if (waited_s >= timeout_s_)
    throw TimeoutError("rank " + std::to_string(rank()) + " waited " + std::to_string(waited_s) + " s in NCCL, where " +
                       "the other ranks have to come for its first calls; are they alive, and have they made the same "
                       "call?");
}

Communicator::GpuWay Communicator::way_of(GpuSide& side, const Call& call, int device, void* stream) const {
  if (device == kUnknownDevice) {
    side.require_own(call.in, "input");
    side.require_own(call.out, "output");
  }
  const std::string_view name = pinned_for(call);
  const bool by_peers = name.empty() ? side.has_peers() : peer_engine_from(name).has_value();
  const std::string rank_says = "rank " + std::to_string(rank()) + ": ";
  if (by_peers && !side.has_peers())
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' moves memory among the GPUs of one host, and " +
                     "these ranks are on " + std::to_string(hosts()) + "; name another one, or none");
  if (by_peers && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) + ": calls by peer memory cut messages by " +
                     "themselves; give 0");
  if (by_peers) return GpuWay::peers;
  if (name == kNative) {
    if (const std::string what = not_native(call); !what.empty())
      throw UsageError(rank_says + std::string(name_of(call.kind)) +
                       ": algorithm 'native' on GPUs is NCCL's own: " + what);
    if (side.capturing(static_cast<gpu::Stream>(stream)))
      throw UsageError(rank_says + "no CUDA graph can capture algorithm 'native', since nobody would look after the " +
                       "deadline of a replay; end the capture first");
    refuse_without_threads();
    return GpuWay::native;
  }
  if (!name.empty() && !has_algorithm(call.kind, topology_, name))
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' is unknown on GPUs; known: peer_kernel " +
                     "peer_two_shot copy_engine peer_direct on one host, and those of `lanecast plan algorithms`");
  const std::string through_host = "messages that pass through the host's memory";
  if (side.capturing(static_cast<gpu::Stream>(stream)))
    throw UsageError(rank_says + "no CUDA graph can capture a call with " + through_host + ", which no replay would " +
                     "send again; end the capture first");
  if (call.own_counts() && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) +
                     ": messages of send_counts and recv_counts are cut pair by pair on GPUs; give 0");
  refuse_without_threads();
  return GpuWay::plan;
}

std::shared_ptr<GpuSide> Communicator::enqueue_behind(void* stream, const Call& call, int device, bool apart) {
  const std::unique_lock queue = enter_queue();
  GpuWay way{};
  std::shared_ptr<GpuSide> side;
  std::optional<StagedCall> rest;
  void* on = stream;
  {
    std::unique_lock lock = enter();
    refuse_if_failed();
    gpu(device, lock);
    side = gpu_;
    look_at_gpu();
    way = way_of(*side, call, device, stream);
    open_for(*side, call, way, stream, lock);
    if (apart) {
      on = side->own_stream();
      if (way != GpuWay::plan) side->order(static_cast<gpu::Stream>(stream), side->own_stream());
    }
    rest = enqueue_on(*side, call, way, on);
  }
  if (way != GpuWay::peers) hand_to_thread();
  if (rest) enqueue_rest(*side, *rest, stream, on);
  return side;
}

void Communicator::enqueue(const Call& call, int device, void* stream) {
  enqueue_behind(stream, call, device, /*apart=*/false);
}

std::shared_ptr<DeviceWork> Communicator::enqueue_async(const Call& call, int device, void* stream) {
  std::shared_ptr<GpuSide> side = enqueue_behind(stream, call, device, /*apart=*/true);
  const gpu::Stream own = side->own_stream();
  return std::make_shared<DeviceWork>(*this, std::move(side), own);
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
