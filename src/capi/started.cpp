// SPDX-License-Identifier: Apache-2.0
// Started collectives, and persistent ones.
#include "capi/call.h"

namespace lanecast::capi {
namespace {

lanecastResult_t start(const lanecastCall_t& call, const Target& target) {
  return start(target, [&](Communicator& core) { return target.comm->start(call_from(call, core)); });
}

lanecastResult_t start_v(const lanecastCall_t& call, const Target& target) {
  return start(target, [&](Communicator& core) {
    require(call.counts, "counts", core);
    return target.comm->start(call_from(call, core));
  });
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastAllGatherStart(const void* sendbuff, void* recvbuff, size_t sendcount,
                                        lanecastDataType_t datatype, lanecastComm_t comm, lanecastWork_t* work) {
  return start({lanecastCollAllGather, sendbuff, recvbuff, sendcount, nullptr, datatype, lanecastSum, 0, nullptr},
               {comm, work});
}

lanecastResult_t lanecastReduceScatterStart(const void* sendbuff, void* recvbuff, size_t recvcount,
                                            lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm,
                                            lanecastWork_t* work) {
  return start({lanecastCollReduceScatter, sendbuff, recvbuff, recvcount, nullptr, datatype, op, 0, nullptr},
               {comm, work});
}

lanecastResult_t lanecastAllReduceStart(const void* sendbuff, void* recvbuff, size_t count, lanecastDataType_t datatype,
                                        lanecastRedOp_t op, lanecastComm_t comm, lanecastWork_t* work) {
  return start({lanecastCollAllReduce, sendbuff, recvbuff, count, nullptr, datatype, op, 0, nullptr}, {comm, work});
}

lanecastResult_t lanecastAllGatherVStart(const void* sendbuff, void* recvbuff, const size_t* counts,
                                         lanecastDataType_t datatype, lanecastComm_t comm, lanecastWork_t* work) {
  return start_v({lanecastCollAllGather, sendbuff, recvbuff, 0, counts, datatype, lanecastSum, 0, nullptr},
                 {comm, work});
}

lanecastResult_t lanecastReduceScatterVStart(const void* sendbuff, void* recvbuff, const size_t* counts,
                                             lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm,
                                             lanecastWork_t* work) {
  return start_v({lanecastCollReduceScatter, sendbuff, recvbuff, 0, counts, datatype, op, 0, nullptr}, {comm, work});
}

lanecastResult_t lanecastStart(const lanecastCall_t* call, lanecastComm_t comm, lanecastWork_t* work) {
  return start({comm, work}, [&](Communicator& core) {
    require(call, "call", core);
    return comm->start(call_from(*call, core));
  });
}

lanecastResult_t lanecastPersistentInit(const lanecastCall_t* call, lanecastComm_t comm,
                                        lanecastPersistent_t* persistent) {
  return guarded(comm, [&](Communicator& core) {
    require(call, "call", core);
    require(persistent, "persistent", core);
    *persistent = new lanecastPersistent{std::make_unique<PersistentCall>(core, call_from(*call, core)), comm->error,
                                         core.options().interrupt};
  });
}
