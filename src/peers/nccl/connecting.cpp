// SPDX-License-Identifier: Apache-2.0
#include "peers/nccl/connecting.h"

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "device/gpu/beside_captures.h"
#include "device/gpu/memory.h"
#include "device/gpu/stream.h"
#include "peers/nccl/calls.h"

namespace lanecast::nccl {
namespace {

/// NCCL connects ranks for each of its own algorithms when a call first takes it, and the length decides which. These
/// lengths take all that there are within a host.
constexpr std::size_t kLengths[] = {64, std::size_t{1} << 20, std::size_t{8} << 20};

void check(const NcclPlace& place, gpu::NcclComm comm, int result, const std::string& what) {
  if (result == gpu::kNcclSuccess) return;
  throw TransportError("rank " + std::to_string(place.rank) + ": NCCL: " + what + ": " +
                       place.nccl->GetErrorString(result) + ": " + place.nccl->GetLastError(comm));
}

/// Every collective at every length, on memory that nobody else knows.
void connect(const NcclPlace& place, gpu::NcclComm comm) {
  const std::size_t longest = kLengths[std::size(kLengths) - 1];
  const gpu::DeviceMemory in(place.device, longest), out(place.device, longest);
  const gpu::OwnedStream stream(place.device);
  for (const std::size_t bytes : kLengths)
    for (const Kind kind : kAllKinds) {
      const bool in_parts = kind != Kind::all_reduce && kind != Kind::broadcast && kind != Kind::reduce;
      const std::size_t count = bytes / sizeof(float) / (in_parts ? static_cast<std::size_t>(place.size) : 1);
      const NcclCollective call{kind,
                                DType::float32,
                                ReduceOp::sum,
                                reinterpret_cast<const void*>(in.address()),
                                reinterpret_cast<void*>(out.address()),
                                count,
                                0};
      const NcclRank me{comm, place.rank, place.size};
      check(place, comm, run(*place.nccl, me, call, stream.get()), "a first " + std::string(name_of(kind)));
    }
  place.device->check(place.device->driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
}

gpu::NcclComm open(const NcclPlace& place, const gpu::NcclUniqueId& id) {
  const gpu::Device::Current current(*place.device);
  const gpu::BesideCaptures beside(place.device->driver());
  gpu::NcclConfig config;
  config.blocking =
      1;  // its calls are enqueued by the thread that makes them; otherwise each takes a thread of its own
  if (place.max_ctas > 0) config.max_ctas = place.max_ctas;
  gpu::NcclComm comm = nullptr;
  check(place, comm, place.nccl->CommInitRankConfig(&comm, place.size, id, place.rank, &config),
        "ncclCommInitRankConfig");
  try {
    connect(place, comm);
  } catch (...) {
    place.nccl->CommAbort(comm);
    throw;
  }
  return comm;
}

}  // namespace

OpenedNccl opened_apart(const NcclPlace& place, const gpu::NcclUniqueId& id,
                        const std::function<void(double waited_s)>& keep_waiting) {
  std::packaged_task<OpenedNccl()> task([place, id]() -> OpenedNccl {
    try {
      return {open(place, id), {}};
    } catch (const std::exception& error) {
      return {nullptr, error.what()};
    }
  });
  std::future<OpenedNccl> opened = task.get_future();
  const auto since = std::chrono::steady_clock::now();
  std::thread thread(std::move(task));
  while (opened.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    try {
      keep_waiting(std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
    } catch (...) {
      thread.detach();  // it holds what it needs, and NCCL takes no word from outside while it opens
      throw;
    }
  }
  thread.join();
  return opened.get();
}

}  // namespace lanecast::nccl
