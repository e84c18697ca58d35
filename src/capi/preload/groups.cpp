// SPDX-License-Identifier: Apache-2.0
// NCCL's groups, and messages between two ranks. NCCL has each group as well, for what is passed on in it.
#include "capi/preload/groups.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "capi/preload/making.h"
#include "capi/preload/taking.h"
#include "capi/preload/telling.h"
#include "capi/preload/theirs.h"
#include "device/gpu/kernels/message_arguments.h"

namespace lanecast::preload {

ThreadGroup& thread_group() {
  static thread_local ThreadGroup group;
  return group;
}

namespace {

void settle_made(const std::vector<ThreadGroup::Made>& made) {
  std::vector<NcclComm> blocking;
  for (const ThreadGroup::Made& one : made) {
    if (*one.where == nullptr) continue;  // a split without a color
    if (one.blocks)
      blocking.push_back(*one.where);
    else
      leave_to_nccl(*one.where, "its calls do not block (blocking=0)");
  }
  if (blocking.size() == 1)
    make_beside(blocking[0]);
  else if (!blocking.empty())
    refuse_together(blocking, "it was made in one group with others");
}

/// The streams of a group's messages that go by Lanecast, where NCCL has others of it.
using Forks = std::vector<std::pair<std::shared_ptr<BesideNccl>, gpu::Stream>>;
/// Before NCCL's part is enqueued.
Forks fork_of(ThreadGroup& group) {
  Forks forks;
  if (!group.messages.is_outermost() || !std::exchange(group.has_nccls, false)) return forks;
  group.messages.change_streams([&](lanecastComm_t comm, void* stream) {
    const std::shared_ptr<BesideNccl>& beside = group.takers.at(comm);
    auto* const asked = static_cast<gpu::Stream>(stream);
    try {
      void* const own = beside->side.fork(beside->ordinal, asked);
      forks.emplace_back(beside, asked);
      return own;
    } catch (const std::exception& error) {
      tell_always(std::string("messages of one group move one after another: ") + error.what());
      return stream;
    }
  });
  return forks;
}

ncclResult_t ended(ncclResult_t nccls, const Forks& forks) {
  ThreadGroup& group = thread_group();
  if (!group.messages.is_open() || !group.messages.end()) return nccls;
  const auto kept = std::exchange(group.takers, {});  // until the messages have moved, also where one was destroyed
  const std::vector<ThreadGroup::Made> made = std::exchange(group.made, {});
  const std::vector<ThreadGroup::Window> windows = std::exchange(group.windows, {});
  if (nccls == ncclSuccess) {
    settle_made(made);
    for (const ThreadGroup::Window& window : windows) keep_window(window);
  }
  const ncclResult_t ours = group.messages.move();
  const ncclResult_t whole = nccls == ncclSuccess ? ours : nccls;
  try {
    for (const auto& [beside, stream] : forks) beside->side.join(stream);
  } catch (const std::exception& error) {
    tell_always(std::string("the stream of a group does not wait for all of its messages: ") + error.what());
    return whole == ncclSuccess ? ncclUnhandledCudaError : whole;
  }
  return whole;
}

/// Of a message within a host, so that both ends know it. What the slots of a channel do not hold at once has to wait
/// for the receiver. With half as many slots messages of 128 MiB took 1.7 to 2.6 times as long as NCCL's on two H200s,
/// and nobody has compared them in such programs since.
bool is_longer_than_slots(const AskedOfNccl& asked, const BesideNccl& beside) {
  const std::size_t element = size_of(static_cast<DType>(capi::type_from_nccl(asked.type)));
  const auto ranks_here = static_cast<gpu::u32>(std::ranges::count(beside.is_here, true));
  return asked.count > gpu::channel_bytes(ranks_here) / element;
}

/// Null: NCCL takes it.
std::shared_ptr<BesideNccl> taker(const AskedOfNccl& asked, int peer, ncclComm_t handle) {
  std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(handle));
  if (!beside || beside->ours == nullptr) return nullptr;
  const bool to_itself_alone = peer == beside->rank && !thread_group().messages.is_open();
  const char* why = nullptr;
  if (peer < 0 || peer >= beside->size || to_itself_alone) why = "there is no such peer";
  if (asked.type < 0 || asked.type >= ncclNumTypes)
    why = "Lanecast has no such type";
  else if (!why && beside->is_here[static_cast<std::size_t>(peer)] && is_longer_than_slots(asked, *beside))
    why = "it is longer than what the slots hold";
  if (beside->info) tell_way(asked, *beside, why ? why : "");
  thread_group().has_nccls |= why != nullptr;
  return why ? nullptr : beside;
}

ncclResult_t moved(const lanecastMessage_t& message, const std::shared_ptr<BesideNccl>& beside, CUstream_st* stream) {
  ThreadGroup& group = thread_group();
  group.messages.add(message, beside->ours, stream);
  if (!group.messages.is_open()) return group.messages.move();
  group.takers[beside->ours] = beside;
  return ncclSuccess;
}

}  // namespace
}  // namespace lanecast::preload

using namespace lanecast;
using namespace lanecast::preload;

ncclResult_t ncclGroupStart() {
  ThreadGroup& group = thread_group();
  if (!group.messages.is_open()) group.has_nccls = false;  // of messages before it
  group.messages.start();
  return static_cast<ncclResult_t>(real_nccl().GroupStart());
}

ncclResult_t ncclGroupEnd() {
  const Forks forks = fork_of(thread_group());
  return ended(static_cast<ncclResult_t>(real_nccl().GroupEnd()), forks);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  const AskedOfNccl asked{"Send", lanecastCollBroadcast, sendbuff, nullptr, count, type, ncclSum, peer, true};
  if (const auto beside = taker(asked, peer, comm))
    return moved(capi::nccl_send(sendbuff, count, type, peer), beside, stream);
  return static_cast<ncclResult_t>(real_nccl().Send(sendbuff, count, type, peer, theirs(comm), theirs(stream)));
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  const AskedOfNccl asked{"Recv", lanecastCollBroadcast, nullptr, recvbuff, count, type, ncclSum, peer, true};
  if (const auto beside = taker(asked, peer, comm))
    return moved(capi::nccl_receive(recvbuff, count, type, peer), beside, stream);
  return static_cast<ncclResult_t>(real_nccl().Recv(recvbuff, count, type, peer, theirs(comm), theirs(stream)));
}
