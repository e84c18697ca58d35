// SPDX-License-Identifier: Apache-2.0
// NCCL's groups, and messages between two ranks. NCCL has each group as well, for what is passed on in it.
#include "capi/preload/groups.h"

#include <string>
#include <utility>

#include "capi/preload/making.h"
#include "capi/preload/taking.h"
#include "capi/preload/theirs.h"

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

ncclResult_t ended(ncclResult_t nccls) {
  ThreadGroup& group = thread_group();
  if (!group.messages.is_open() || !group.messages.end()) return nccls;
  const std::vector<ThreadGroup::Made> made = std::exchange(group.made, {});
  const std::vector<ThreadGroup::Window> windows = std::exchange(group.windows, {});
  if (nccls == ncclSuccess) {
    settle_made(made);
    for (const ThreadGroup::Window& window : windows) keep_symmetric(window);
  }
  const ncclResult_t ours = group.messages.move();
  return nccls == ncclSuccess ? ours : nccls;
}

/// Null: NCCL takes it.
std::shared_ptr<BesideNccl> taker(const AskedOfNccl& asked, int peer, ncclComm_t handle) {
  std::shared_ptr<BesideNccl> beside = AllBeside::of_process().find(theirs(handle));
  if (!beside || beside->ours == nullptr) return nullptr;
  const bool to_itself_alone = peer == beside->rank && !thread_group().messages.is_open();
  const char* why = nullptr;
  if (peer < 0 || peer >= beside->size || to_itself_alone) why = "there is no such peer";
  if (asked.type < 0 || asked.type >= ncclNumTypes) why = "Lanecast has no such type";
  if (beside->info) tell_way(asked, *beside, why ? why : "");
  return why ? nullptr : beside;
}

ncclResult_t moved(const lanecastMessage_t& message, BesideNccl& beside, CUstream_st* stream) {
  capi::NcclGroup& group = thread_group().messages;
  group.add(message, beside.ours, stream);
  return group.is_open() ? ncclSuccess : group.move();
}

}  // namespace
}  // namespace lanecast::preload

using namespace lanecast;
using namespace lanecast::preload;

ncclResult_t ncclGroupStart() {
  thread_group().messages.start();
  return static_cast<ncclResult_t>(real_nccl().GroupStart());
}

ncclResult_t ncclGroupEnd() { return ended(static_cast<ncclResult_t>(real_nccl().GroupEnd())); }

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  const AskedOfNccl asked{"Send", lanecastCollBroadcast, sendbuff, nullptr, count, type, ncclSum, peer, true};
  if (const auto beside = taker(asked, peer, comm))
    return moved(capi::nccl_send(sendbuff, count, type, peer), *beside, stream);
  return static_cast<ncclResult_t>(real_nccl().Send(sendbuff, count, type, peer, theirs(comm), theirs(stream)));
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      CUstream_st* stream) {
  const AskedOfNccl asked{"Recv", lanecastCollBroadcast, nullptr, recvbuff, count, type, ncclSum, peer, true};
  if (const auto beside = taker(asked, peer, comm))
    return moved(capi::nccl_receive(recvbuff, count, type, peer), *beside, stream);
  return static_cast<ncclResult_t>(real_nccl().Recv(recvbuff, count, type, peer, theirs(comm), theirs(stream)));
}
