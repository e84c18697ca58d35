// SPDX-License-Identifier: Apache-2.0
// Messages between pairs of ranks of a GPU's memory, behind what a stream of the caller's holds.
#include "runtime/communicator/device_work.h"

namespace lanecast {
namespace {

/// What one rank can see by itself. Throws UsageError.
void check_on_gpu(const Transfer& transfer, int rank, int size) {
  const bool sends = transfer.way == Transfer::Way::send;
  const auto refuse = [&](const std::string& what) {
    throw UsageError("rank " + std::to_string(rank) + ": " + (sends ? "send: " : "recv: ") + what);
  };
  if (transfer.peer < 0 || transfer.peer >= size)
    refuse((sends ? "dst: rank " : "src: rank ") + std::to_string(transfer.peer) + " is outside 0 to " +
           std::to_string(size - 1));
  if (transfer.tag != 0)
    refuse("tag: " + std::to_string(transfer.tag) + ": messages of a GPU's memory match in the order of the calls, " +
           "and have tag 0");
  if (transfer.bytes > 0 && transfer.data == nullptr) refuse("buffer: null pointer");
}

}  // namespace

GpuSide& Communicator::gpu_for(std::span<const Transfer> transfers, int device, void* stream, Lock& lock) {
  for (const Transfer& transfer : transfers) check_on_gpu(transfer, rank(), size());
  gate_.refuse_if_failed();
  GpuSide& side = gpu(device, lock, stream);
  side.set_timeout(timeout_s_);
  look_at_gpu();
  for (const Transfer& transfer : transfers)
    if (device == kUnknownDevice && transfer.bytes > 0) side.require_own(transfer.data, "buffer");
  return side;
}

bool Communicator::has_peer_memory() {
  const std::unique_lock lock = gate_.enter();
  return gpu_ && gpu_->has_peers();
}

std::string Communicator::gpu_messages() {
  const std::unique_lock lock = gate_.enter();
  if (!gpu_ || hosts() == 1) return {};
  return gpu_->sends_directly() ? "direct" : "staged";
}

void Communicator::enqueue(std::span<const Transfer> transfers, int device, void* stream) {
  const std::unique_lock queue = gate_.enter_queue();
  std::unique_lock lock = gate_.enter();
  GpuSide& side = gpu_for(transfers, device, stream, lock);
  failing_.or_fail<UsageError>([&] { side.enqueue(transfers, static_cast<gpu::Stream>(stream)); });
}

std::shared_ptr<DeviceWork> Communicator::enqueue_async(std::span<const Transfer> transfers, int device, void* stream) {
  const std::unique_lock queue = gate_.enter_queue();
  std::unique_lock lock = gate_.enter();
  GpuSide& side = gpu_for(transfers, device, stream, lock);
  const gpu::Stream own = side.own_stream(transfers);
  side.streams().order(static_cast<gpu::Stream>(stream), own);
  failing_.or_fail<UsageError>([&] { side.enqueue(transfers, own); });
  return std::make_shared<DeviceWork>(*this, gpu_, own);
}

}  // namespace lanecast
