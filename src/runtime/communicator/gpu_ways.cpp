// SPDX-License-Identifier: Apache-2.0
// Which way a call on a GPU's memory goes, and what has to be opened for it first.
#include <algorithm>

#include "algorithms/algorithms.h"
#include "runtime/communicator/gpu_calls.h"
#include "runtime/communicator/ordered_calls.h"
#include "runtime/communicator/waits.h"
#include "runtime/gpu/gpu_executor.h"

namespace lanecast {
namespace {

/// The algorithm that stands for a library's own collectives.
constexpr std::string_view kNative = "native";

}  // namespace

GpuCalls::Way GpuCalls::way_of(GpuSide& side, const Call& call, const OnStream& where) const {
  side.require_usable(call.in, "input", call.dtype, where.device);
  side.require_usable(call.out, "output", call.dtype, where.device);
  const std::string rank_says = "rank " + std::to_string(rank()) + ": ";
  const std::string_view name = choosing_.pinned_for(call);
  const bool by_peers = name.empty() ? side.has_peers() : peer_engine_from(name).has_value();
  if (by_peers && !side.has_peers())
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' moves memory among the GPUs of one host, and " +
                     "these ranks are on " + std::to_string(ground_.hosts()) + "; name another one, or none");
  if (by_peers && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) + ": calls by peer memory cut messages by " +
                     "themselves; give 0");
  if (by_peers) return Way::peers;
  if (name == kNative) {
    if (const std::string what = not_native(call); !what.empty())
      throw UsageError(rank_says + std::string(name_of(call.kind)) +
                       ": algorithm 'native' on GPUs is NCCL's own: " + what);
    if (side.streams().capturing(static_cast<gpu::Stream>(where.stream)))
      throw UsageError(rank_says + "no CUDA graph can capture algorithm 'native', since nobody would look after the " +
                       "deadline of a replay; end the capture first");
    gate_.refuse_without_threads();
    return Way::native;
  }
  if (!name.empty() && !has_algorithm(call.kind, ground_.topology, name))
    throw UsageError(rank_says + "algorithm '" + std::string(name) + "' is unknown on GPUs; known: peer_kernel " +
                     "peer_two_shot copy_engine peer_direct on one host, and those of `lanecast plan algorithms`");
  if (call.own_counts() && call.chunks)
    throw UsageError(rank_says + "chunks=" + std::to_string(call.chunks) +
                     ": messages of send_counts and recv_counts are cut pair by pair on GPUs; give 0");
  require_messages(side, where.stream);
  return Way::plan;
}

void GpuCalls::require_messages(GpuSide& side, void* stream) const {
  const std::string through_host = "messages that pass through the host's memory";
  if (side.streams().capturing(static_cast<gpu::Stream>(stream)))
    throw UsageError("rank " + std::to_string(rank()) + ": no CUDA graph can capture a call with " + through_host +
                     ", which no replay would send again; end the capture first");
  gate_.refuse_without_threads();
}

std::string GpuCalls::not_native(const Call& call) const {
  if (const std::string what = nccl::missing(call.kind, call.dtype, call.op); !what.empty())
    return what + ": NCCL has none, or another than Lanecast's kernels";
  if (call.own_counts()) return "send_counts, recv_counts: NCCL has none";
  if (std::ranges::any_of(call.counts, [&](std::size_t count) { return count != call.counts[0]; }))
    return "counts: NCCL's are equal on all ranks";
  if (call.chunks) return "chunks=" + std::to_string(call.chunks) + ": NCCL cuts messages by itself; give 0";
  if (choosing_.in_rank_order(call)) return "reproducible: NCCL adds in an order of its own";
  return {};
}

void GpuCalls::open_native(GpuSide& side, Lock& lock) {
  if (side.has_native()) return;
  calls_.drain(lock, ground_.options.interrupt);
  failing_.or_fail<UsageError>([&] {
    side.open_native(waits_.among_all("the first call by NCCL"), ground_.options.gpu_library_folders,
                     [this](double begun_s) { keep_waiting_for_nccl(begun_s); });
  });
}

void GpuCalls::open_staging(GpuSide& side, void* stream, Lock& lock) {
  if (side.has_staging()) return;
  if (side.streams().capturing(static_cast<gpu::Stream>(stream)))
    throw UsageError("rank " + std::to_string(rank()) + ": no CUDA graph can capture a communicator's first call by " +
                     "algorithm 'copy_engine', which takes memory for it; make one before the capture");
  calls_.drain(lock, ground_.options.interrupt);
  failing_.or_fail<UsageError>([&] { side.open_staging(waits_.among_all("the first call by copy engines")); });
}

void GpuCalls::open_for(GpuSide& side, const Call& call, Way way, void* stream, Lock& lock) {
  if (way == Way::native) open_native(side, lock);
  if (way == Way::peers && peer_engine_from(choosing_.pinned_for(call)) == PeerEngine::copy_engine)
    open_staging(side, stream, lock);
}

}  // namespace lanecast
