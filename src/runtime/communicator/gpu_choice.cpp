// SPDX-License-Identifier: Apache-2.0
// Calls among the GPUs of a host: by our own kernels, or by NCCL where that is known or found to be faster.
#include <algorithm>
#include <chrono>
#include <thread>

#include "algorithms/registry.h"
#include "runtime/communicator/gpu_route.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/waits.h"
#include "runtime/gpu/gpu_executor.h"
#include "runtime/wires/surroundings.h"

namespace lanecast {

std::string GpuCalls::not_nccls(const Call& call) const {
  if (const std::string what = nccl::missing(call.kind, call.dtype, call.op); !what.empty())
    return what + ": NCCL has none, or another than Lanecast's kernels";
  if (call.own_counts()) return "send_counts, recv_counts: NCCL has none";
  if (std::ranges::any_of(call.counts, [&](std::size_t count) { return count != call.counts[0]; }))
    return "counts: NCCL's are equal on all ranks";
  if (call.slice.count > 1) return "slices of shares lie apart, and NCCL has no call for them";
  if (call.chunks) return "chunks=" + std::to_string(call.chunks) + ": NCCL cuts messages by itself; give 0";
  if (choosing_.in_rank_order(call)) return "reproducible: NCCL adds in an order of its own";
  return {};
}

EngineCalls::Allowed GpuCalls::allowed_to(GpuExecutor& executor, const Call& call, bool captured) const {
  const NcclCalls& nccl = executor.nccl();
  const bool in_one_order = call.reproducible.value_or(ground_.options.reproducible.value_or(false));
  EngineCalls::Allowed found{!choosing_.in_rank_order(call), nccl.found().why_not,
                             nccl.found().multicast && !in_one_order};
  if (found.no_nccl.empty() && choosing_.pinned_on_gpus(call) == kPeers) found.no_nccl = "the call names peers";
  if (found.no_nccl.empty()) found.no_nccl = not_nccls(call);
  if (found.no_nccl.empty() && captured && !nccl.is_open())
    found.no_nccl = "no graph can capture how it is opened, and no call before has opened it";
  return found;
}

GpuCalls::Route GpuCalls::route_by_nccl(GpuExecutor& executor, const Call& call, bool captured) const {
  const std::string rank_says = "rank " + std::to_string(rank()) + ": ";
  if (const std::string what = not_nccls(call); !what.empty())
    throw UsageError(rank_says + std::string(name_of(call.kind)) + ": algorithm 'nccl': " + what);
  if (captured && !executor.within_host())
    throw UsageError(rank_says + "no CUDA graph can capture algorithm 'nccl' between hosts, since nobody would look " +
                     "after the deadline of a replay; end the capture first");
  if (!captured) gate_.refuse_without_threads();
  return {.backend = GpuBackend::nccl, .captured = captured};
}

GpuCalls::Route GpuCalls::route_within_host(GpuExecutor& executor, const Call& call, const OnStream& where,
                                            bool captured, Lock& lock) {
  const auto stream = static_cast<gpu::Stream>(where.stream);
  EngineCalls& engines = executor.within_host()->engines;
  const std::string_view name = choosing_.pinned_on_gpus(call);
  const auto chosen = [&] {
    const EngineCalls::Allowed allowed = allowed_to(executor, call, captured);
    return failing_.or_fail<UsageError>([&] { return engines.way_of(call, name, allowed, stream); });
  };
  EngineCalls::Way way = chosen();
  if (way.turn && way.turn->settles) {
    settle(executor, size_class_of(way.traffic), lock);
    way = chosen();
  }
  if (way.engine == PeerEngine::nccl && !executor.nccl().is_open()) {
    try {
      open_nccl(executor, where.stream, lock);
    } catch (const UsageError& error) {  // on all ranks
      executor.nccl().refuse(error.what());
      way = chosen();
    }
  }
  const bool by_nccl = way.engine == PeerEngine::nccl;
  return {by_nccl ? GpuBackend::nccl : GpuBackend::peers, way, captured};
}

Trials::Way GpuCalls::settle(GpuExecutor& executor, const SizeClass& size, Lock& lock) {
  TimedTrials& trials = executor.within_host()->engines.trials();
  calls_.drain(lock, ground_.options.interrupt);
  return failing_.or_fail([&] {
    const auto since = std::chrono::steady_clock::now();
    while (!trials.have_run(size)) {
      executor.raise_fault();
      keep_waiting("calls whose times are compared",
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return trials.settle(size, waits_.among_all("the choice between NCCL and Lanecast's kernels"));
  });
}

}  // namespace lanecast
