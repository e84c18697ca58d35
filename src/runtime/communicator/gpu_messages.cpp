// SPDX-License-Identifier: Apache-2.0
// MessageCalls between pairs of ranks of a GPU's memory, behind what a stream of the caller's holds.
#include "runtime/communicator/device_work.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/waits.h"

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

GpuExecutor& GpuCalls::open_for_messages(Transfers transfers, const OnStream& where, Lock& lock) {
  for (const Transfer& transfer : transfers) check_on_gpu(transfer, rank(), ground_.size());
  gate_.refuse_if_failed();
  GpuExecutor& executor = open_for_call(where.device, lock, where.stream);
  if (!executor.within_host())
    throw UsageError("rank " + std::to_string(rank()) +
                     ": messages of a GPU's memory go among the ranks of one host, and these are on several");
  executor.set_timeout(waits_.timeout_s());
  look();
  for (const Transfer& transfer : transfers)
    if (where.device == kUnknownDevice && transfer.bytes > 0) require_own(executor.own(), transfer.data, "buffer");
  return executor;
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue_one(Transfers transfers, const OnStream& where) {
  const std::unique_lock queue = gate_.enter_queue();
  Lock lock = gate_.enter();
  GpuExecutor& executor = open_for_messages(transfers, where, lock);
  InHostMessages& messages = executor.within_host()->messages;
  trace([&] {
    std::size_t bytes = 0;
    for (const Transfer& transfer : transfers) bytes += transfer.bytes;
    return std::pair(std::string("messages"), bytes);
  });
  auto on = static_cast<gpu::Stream>(where.stream);
  if (where.apart) {
    on = messages.own_stream(transfers);
    executor.order_of_calls().order(static_cast<gpu::Stream>(where.stream), on);
  }
  failing_.or_fail<UsageError>([&] { messages.enqueue(transfers, on); });
  return where.apart ? std::make_shared<DeviceWork>(*this, executor_, on) : nullptr;
}

}  // namespace lanecast
