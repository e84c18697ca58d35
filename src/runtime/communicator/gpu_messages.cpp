// SPDX-License-Identifier: Apache-2.0
// MessageCalls between pairs of ranks of a GPU's memory, behind what a stream of the caller's holds.
#include <map>

#include "runtime/communicator/carried_messages.h"
#include "runtime/communicator/device_work.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/rounds.h"
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
  if (executor.between_hosts()) gate_.refuse_without_threads();
  executor.set_timeout(waits_.timeout_s());
  look();
  for (const Transfer& transfer : transfers)
    if (where.device == kUnknownDevice && transfer.bytes > 0) require_own(executor.own(), transfer.data, "buffer");
  return executor;
}

void GpuCalls::expect(BetweenHosts& between, Transfers transfers, void* on, Lock& lock) {
  MessagesBetweenHosts& messages = between.messages();
  peer_messages(transfers, rank());  // throws for those to this rank that do not fit each other
  if (const std::vector<int> peers = messages.strangers(transfers); !peers.empty()) {
    std::map<int, std::shared_ptr<CarriedChannels>> made;
    outside_gate(lock, [&] { made = messages.make_channels(peers, *ground_.router); });
    messages.add(std::move(made));
    carried_.open(messages, [this] { executor_->raise_fault(); });
  }
  messages.expect(transfers, static_cast<gpu::Stream>(on), waits_.timeout_s());
}

std::shared_ptr<DeviceWork> GpuCalls::enqueue_one(Transfers transfers, const OnStream& where) {
  const Lock queue = gate_.enter_queue();
  Lock lock = gate_.enter(ground_.options.interrupt);
  GpuExecutor& executor = open_for_messages(transfers, where, lock);
  trace([&] {
    std::size_t bytes = 0;
    for (const Transfer& transfer : transfers) bytes += transfer.bytes;
    return std::pair(std::string("messages"), bytes);
  });
  WithinHost* const host = executor.within_host();
  auto on = static_cast<gpu::Stream>(where.stream);
  if (where.apart) {
    on = host ? host->messages.own_stream(transfers) : executor.between_hosts()->messages().own_stream(transfers);
    executor.order_of_calls().order(static_cast<gpu::Stream>(where.stream), on);
  }
  if (host)
    failing_.or_fail<UsageError>([&] { host->messages.enqueue(transfers, on); });
  else
    enqueue_between_hosts(executor, transfers, on, lock);
  return where.apart ? std::make_shared<DeviceWork>(*this, executor_, on) : nullptr;
}

void GpuCalls::enqueue_between_hosts(GpuExecutor& executor, Transfers transfers, void* on, Lock& lock) {
  BetweenHosts& between = *executor.between_hosts();
  failing_.or_fail<UsageError>([&] { expect(between, transfers, on, lock); });
  lock.unlock();
  rounds_.hand_to_thread();
  try {
    between.messages().enqueue(transfers, static_cast<gpu::Stream>(on));
  } catch (const std::exception& error) {
    fail_once(error);
    throw;
  }
}

}  // namespace lanecast
