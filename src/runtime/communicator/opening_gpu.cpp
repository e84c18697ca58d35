// SPDX-License-Identifier: Apache-2.0
// A communicator's GPU: opened once, together with the other ranks', and what can be asked of it then.
#include <cstdio>
#include <string_view>
#include <utility>

#include "runtime/agree/bootstrap_over.h"
#include "runtime/communicator/gpu_calls.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/settling_links.h"
#include "runtime/communicator/waits.h"
#include "runtime/gpu/between_hosts/where_messages_lie.h"
#include "runtime/gpu/gpu_executor.h"
#include "runtime/wires/surroundings.h"

namespace lanecast {

std::shared_ptr<GpuExecutor> GpuCalls::made(int device, std::optional<void*> stream) {
  const std::string what = "the first call on a GPU";
  std::optional<gpu::Stream> behind;
  if (stream) behind = static_cast<gpu::Stream>(*stream);
  peers::Launches::Listener hears;
  if (ground_.options.trace_steps)
    hears = [&log = ground_.log](std::string_view kernel, int blocks) { log.launched(kernel, blocks); };
  auto executor = std::make_shared<GpuExecutor>(
      waits_.among_all(what), ground_.topology,
      GpuOptions{device, behind, ground_.options.gpu_library_folders, ground_.options.kernel_cache,
                 ground_.options.allow_shared_gpu, ground_.options.max_ctas, waits_.timeout_s(),
                 [&](const gpu::Device& opened) {
                   return naming("LANECAST_GPU_MESSAGES", ground_.options, [&] {
                     return lanecast::where_messages_lie(ground_.options.gpu_messages, opened, ground_.router, rank(),
                                                         ground_.around.hosts);
                   });
                 },
                 std::move(hears)},
      GpuNeighbours{ground_.around.hosts, [&](const Ranks& ranks) {
                      return waits_.among({.ranks = ranks, .what = what, .meanwhile = [this](auto...) {
                                             gate_.ask(ground_.options.interrupt);
                                           }});
                    }});
  executor->choose_by(choosing_.models());
  look_for_nccl(*executor);
  choosing_.gpus_are(executor->kind_of_gpu());
  if (BetweenHosts* const between = executor->between_hosts()) {
    say_why_staged(*between);
    const auto hear = [this] { gate_.ask(ground_.options.interrupt); };
    settle_gpu_links(
        {ground_.router, ground_.topology, ground_.around.hosts, rank(), waits_.timeout_s(), ground_.rivals, hear},
        choosing_, *executor);
    between->network_is(choosing_.network(on_gpus(*executor)));
  }
  return executor;
}

void GpuCalls::look_for_nccl(GpuExecutor& executor) {
  if (!executor.within_host() || ground_.size() < 2) return;  // elsewhere it is taken by name alone
  std::string refused = threads_refused(ground_.around);
  if (!refused.empty()) refused = "nobody could look after its calls, since one " + refused;
  if (ground_.options.allow_shared_gpu) refused = "it takes no GPU that two ranks share, as they may here";
  executor.nccl().look_for_it(waits_.among_all("the first call on a GPU"), ground_.options.gpu_library_folders,
                              refused);
}

void GpuCalls::say_why_staged(const BetweenHosts& between) const {
  if (rank() != 0 || between.why_staged().empty() || !ground_.progress->is_first(between.why_staged())) return;
  std::fprintf(stderr,
               "lanecast: messages between hosts pass through the hosts' memory: %s, and whoever holds that driver may "
               "wait for a kernel that waits for the message; gpu_messages=\"direct\" has them lie on the GPUs all the "
               "same, \"staged\" says nothing (docs/reference/gpu.md)\n",
               between.why_staged().c_str());
}

GpuExecutor& GpuCalls::open_for_call(int device, Lock& lock, std::optional<void*> stream) {
  if (!executor_) {
    calls_.drain(lock, ground_.options.interrupt);
    if (device == kUnknownDevice)
      throw UsageError("rank " + std::to_string(rank()) + ": the buffers do not say on which GPU they lie; make the " +
                       "communicator with device=N");
    executor_ = failing_.or_fail<UsageError>([&] { return made(device, stream); });
    failing_.opens(executor_);
  }
  if (device != kUnknownDevice && device != executor_->device().ordinal())
    throw UsageError("rank " + std::to_string(rank()) + ": the buffers lie on GPU " + std::to_string(device) +
                     ", and this communicator uses GPU " + std::to_string(executor_->device().ordinal()));
  return *executor_;
}

void GpuCalls::open_within(int device) {
  executor_ = made(device);
  failing_.opens(executor_);
}

std::shared_ptr<peers::SharedMemory> GpuCalls::allocate_symmetric(int device, std::size_t bytes) {
  std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  GpuExecutor& executor = open_for_call(device, lock);
  if (ground_.hosts() > 1)
    throw UsageError("rank " + std::to_string(rank()) + ": symmetric memory is for the GPUs of one host, and these " +
                     "ranks are on " + std::to_string(ground_.hosts()));
  calls_.drain(lock, ground_.options.interrupt);
  std::shared_ptr<peers::SharedMemory> memory;
  failing_.or_fail<UsageError>(
      [&] { memory = executor.within_host()->buffers.allocate(waits_.among_all("symmetric memory"), bytes); });
  return memory;
}

bool GpuCalls::open_window(std::shared_ptr<peers::WindowMemory> memory) {
  const std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  return executor_ && executor_->within_host() && executor_->within_host()->buffers.open_window(std::move(memory));
}

void GpuCalls::look_at_windows() {
  const std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  if (executor_ && executor_->within_host()) executor_->within_host()->buffers.look();
}

std::uint64_t GpuCalls::calls_by_windows() {
  const std::unique_lock lock = gate_.enter();
  return executor_ && executor_->within_host() ? executor_->within_host()->buffers.calls_by_windows() : 0;
}

void GpuCalls::open(int device) {
  std::unique_lock lock = gate_.enter();
  gate_.refuse_if_failed();
  open_for_call(device, lock);
}

std::optional<int> GpuCalls::device() {
  const std::unique_lock lock = gate_.enter();
  return executor_ ? std::optional(executor_->device().ordinal()) : std::nullopt;
}

bool GpuCalls::has_peers() {
  const std::unique_lock lock = gate_.enter();
  return executor_ && executor_->within_host();
}

bool GpuCalls::has_messages() {
  const std::unique_lock lock = gate_.enter();
  return executor_ != nullptr;
}

std::string GpuCalls::where_messages_lie() {
  const std::unique_lock lock = gate_.enter();
  if (!executor_ || !executor_->between_hosts()) return {};
  return executor_->between_hosts()->is_direct() ? "direct" : "staged";
}

Explanation GpuCalls::explain(const Call& call, bool symmetric, bool captured) {
  const std::unique_lock lock = gate_.enter();
  if (!executor_)
    throw UsageError("rank " + std::to_string(rank()) +
                     ": device: calls on GPUs are explained among ranks that have opened theirs; make the " +
                     "communicator with device=N");
  const WithinHost* const host = executor_->within_host();
  if (!host) return choosing_.explain_for_gpus(call, on_gpus(*executor_));
  PeerQuestion question;
  question.traffic.symmetric = symmetric;
  question.traffic.captured = captured;
  question.pinned = choosing_.pinned_on_gpus(call);
  return host->engines.explain(call, question, allowed_to(*executor_, call, captured));
}

std::string GpuCalls::kind() {
  const std::unique_lock lock = gate_.enter();
  return executor_ ? executor_->kind_of_gpu() : std::string();
}

}  // namespace lanecast
