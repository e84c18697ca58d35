// SPDX-License-Identifier: Apache-2.0
// Which backend takes a call on a GPU's memory, and what has to be opened for it first.
#include "algorithms/registry.h"
#include "runtime/bound/own_counts.h"
#include "runtime/communicator/gpu_route.h"
#include "runtime/communicator/launched_calls.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/waits.h"
#include "runtime/gpu/gpu_executor.h"

namespace lanecast {

GpuCalls::Route GpuCalls::route_of(GpuExecutor& executor, const Call& call, const OnStream& where, Lock& lock) {
  require_usable(executor.own(), call.in, call.out, call.dtype, where.device);
  if (const auto& counts = call.counts_on_device)
    require_usable(executor.own(), counts->sends, counts->receives, DType::int64, where.device);
  const std::string rank_says = "rank " + std::to_string(rank()) + ": ";
  const std::string_view name = choosing_.pinned_on_gpus(call);
  const bool on_one_host = executor.within_host() != nullptr;
  const bool captured = executor.order_of_calls().capturing(static_cast<gpu::Stream>(where.stream));
  if (call.counts_on_device && on_one_host)
    throw UsageError(rank_says + "all_to_all: counts in the GPU's memory are for ranks of several hosts; give " +
                     "numbers here, or allow as much for each pair and give no split sizes");
  if (name == kNccl) return route_by_nccl(executor, call, captured);
  const bool by_peers =
      name.empty() ? on_one_host && call.slice.count == 1 : name == kPeers || peer_engine_from(name).has_value();
  if (by_peers && !on_one_host)
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' moves memory among the GPUs of one host, and " +
                     "these ranks are on " + std::to_string(ground_.hosts()) + "; name another one, or none");
  if (by_peers && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) + ": calls by peer memory cut messages by " +
                     "themselves; give 0");
  if (by_peers && call.slice.count > 1)
    throw UsageError(rank_says + "algorithm '" + std::string(name) +
                     "' has no way to move slices of shares, which lie " +
                     "apart; name one of `lanecast plan algorithms`, or none");
  if (by_peers) return route_within_host(executor, call, where, captured, lock);
  if (!name.empty() && !has_algorithm(call.kind, ground_.topology, name))
    throw UsageError(
        rank_says + "algorithm '" + std::string(name) + "' is unknown on GPUs; known: nccl, and peers " +
        "peer_kernel peer_two_shot peer_chain copy_engine peer_direct on one host, and those of `lanecast plan " +
        "algorithms`");
  if (has_level(name, kMpi))
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "': MPI's own collectives take the host's " +
                     "memory, and these buffers lie on a GPU; name nccl, peers or another algorithm");
  if (has_level(name, kNccl))
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "': NCCL runs whole calls, and no level of a " +
                     "plan; name peers for it, which are our kernels among the GPUs of a host");
  if (on_one_host && !call.own_counts()) return {.backend = GpuBackend::program, .captured = captured};
  if (call.own_counts() && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) +
                     ": messages of send_counts and recv_counts are cut pair by pair on GPUs; give 0");
  if (on_one_host) {  // algorithms that do not forward send each part to its target, and so do kernels
    require_own_counts_suffice(call, ground_.topology, std::string(name));
    return {.backend = GpuBackend::peers};
  }
  gate_.refuse_without_threads();
  return {.backend = GpuBackend::proxied};
}

void GpuCalls::open_proxied(GpuExecutor& executor, void* stream, Lock& lock) {
  if (!executor.order_of_calls().capturing(static_cast<gpu::Stream>(stream))) return;
  if (launched_.empty()) executor.between_hosts()->captured().drop_ended();
  if (launched_.is_open()) return;
  calls_.drain(lock, ground_.options.interrupt);
  launched_.open(*executor.between_hosts(), [&executor] { executor.raise_fault(); });
}

template <class Open>
void GpuCalls::take_memory(GpuExecutor& executor, const std::string& by, void* stream, Lock& lock, const Open& open) {
  if (executor.order_of_calls().capturing(static_cast<gpu::Stream>(stream)))
    throw UsageError("rank " + std::to_string(rank()) + ": no CUDA graph can capture a communicator's first call by " +
                     by + ", which takes memory for it; make one before the capture");
  calls_.drain(lock, ground_.options.interrupt);
  failing_.or_fail<UsageError>(open);
}

void GpuCalls::open_staging(GpuExecutor& executor, void* stream, Lock& lock) {
  peers::PeerGroup& peers = *executor.within_host()->peers;
  if (peers.has_staging()) return;
  take_memory(executor, "algorithm 'copy_engine'", stream, lock,
              [&] { peers.open_staging(waits_.among_all("the first call by copy engines")); });
}

void GpuCalls::open_nccl(GpuExecutor& executor, void* stream, Lock& lock) {
  if (executor.nccl().is_open()) return;
  const std::string what = "NCCL's first call, which connects them";
  take_memory(executor, "NCCL", stream, lock, [&] {
    executor.nccl().open(waits_.among_all("the first call by NCCL"), ground_.options.gpu_library_folders,
                         [&](double begun_s) { keep_waiting(what, begun_s); });
  });
}

void GpuCalls::open_for(GpuExecutor& executor, const Route& route, void* stream, Lock& lock) {
  if (route.backend == GpuBackend::nccl) open_nccl(executor, stream, lock);
  if (route.backend == GpuBackend::peers && route.way.named && route.way.engine == PeerEngine::copy_engine)
    open_staging(executor, stream, lock);
  if (route.backend == GpuBackend::program) open_programs(executor, stream, lock);
  if (route.backend == GpuBackend::proxied) open_proxied(executor, stream, lock);
}

void GpuCalls::open_programs(GpuExecutor& executor, void* stream, Lock& lock) {
  InHostPrograms& programs = executor.within_host()->programs;
  if (programs.is_open()) return;
  take_memory(executor, "a plan's program", stream, lock,
              [&] { programs.open(waits_.among_all("the first program on GPUs")); });
}

}  // namespace lanecast
