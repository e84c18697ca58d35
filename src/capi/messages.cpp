// SPDX-License-Identifier: Apache-2.0
// Messages between two ranks, and the barrier.
#include "capi/messages.h"

namespace lanecast::capi {

using Way = Transfer::Way;

Transfer transfer_from(Way way, const lanecastMessage_t& m, const Communicator& comm) {
  const std::size_t element = size_of(dtype_from(m.datatype, comm));
  if (m.count > SIZE_MAX / 2 / element) refuse(comm, "count: larger than any memory");
  return {way, way == Way::send ? const_cast<void*>(m.sendbuff) : m.recvbuff, m.count * element, m.peer, m.tag};
}

std::vector<Transfer> transfers_from(const lanecastMessage_t* messages, std::size_t n, const Communicator& comm) {
  if (n > 0 && !messages) refuse(comm, "messages: null pointer");
  std::vector<Transfer> transfers;
  for (std::size_t k = 0; k < n; ++k) {
    if (!messages[k].sendbuff == !messages[k].recvbuff)
      refuse(comm, "messages[" + std::to_string(k) + "]: needs sendbuff or recvbuff, and not both");
    transfers.push_back(transfer_from(messages[k].sendbuff ? Way::send : Way::receive, messages[k], comm));
  }
  return transfers;
}

namespace {

lanecastResult_t run(Way way, const lanecastMessage_t& message, lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) {
    const Transfer transfer = transfer_from(way, message, core);
    core.run(Transfers{&transfer, 1}, core.options().interrupt);
  });
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastSend(const void* sendbuff, size_t count, lanecastDataType_t datatype, int peer, int tag,
                              lanecastComm_t comm) {
  return run(Way::send, {sendbuff, nullptr, count, datatype, peer, tag}, comm);
}

lanecastResult_t lanecastRecv(void* recvbuff, size_t count, lanecastDataType_t datatype, int peer, int tag,
                              lanecastComm_t comm) {
  return run(Way::receive, {nullptr, recvbuff, count, datatype, peer, tag}, comm);
}

lanecastResult_t lanecastProbe(int peer, int tag, lanecastComm_t comm, int* arrived) {
  return guarded(comm, [&](Communicator& core) {
    if (!arrived) refuse(core, "arrived: null pointer");
    *arrived = core.arrived(peer, tag) ? 1 : 0;
  });
}

lanecastResult_t lanecastBatch(const lanecastMessage_t* messages, size_t n, lanecastComm_t comm) {
  return guarded(comm,
                 [&](Communicator& core) { core.run(transfers_from(messages, n, core), core.options().interrupt); });
}

lanecastResult_t lanecastBatchStart(const lanecastMessage_t* messages, size_t n, lanecastComm_t comm,
                                    lanecastWork_t* work) {
  return start({comm, work}, [&](Communicator& core) { return core.start(transfers_from(messages, n, core)); });
}

lanecastResult_t lanecastBarrier(lanecastComm_t comm) {
  return guarded(comm, [](Communicator& core) { core.run(BarrierRequest{}, core.options().interrupt); });
}

lanecastResult_t lanecastBarrierStart(lanecastComm_t comm, lanecastWork_t* work) {
  return start({comm, work}, [](Communicator& core) { return core.start(BarrierRequest{}, core.options().interrupt); });
}
