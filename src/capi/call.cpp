// SPDX-License-Identifier: Apache-2.0
#include "capi/call.h"

namespace lanecast::capi {

static_assert(static_cast<int>(Kind::all_gather) == lanecastCollAllGather &&
              static_cast<int>(Kind::reduce_scatter) == lanecastCollReduceScatter &&
              static_cast<int>(Kind::all_reduce) == lanecastCollAllReduce &&
              static_cast<int>(Kind::broadcast) == lanecastCollBroadcast &&
              static_cast<int>(Kind::reduce) == lanecastCollReduce &&
              static_cast<int>(Kind::gather) == lanecastCollGather &&
              static_cast<int>(Kind::scatter) == lanecastCollScatter &&
              static_cast<int>(Kind::all_to_all) == lanecastCollAllToAll);

Call call_from(const lanecastCall_t& c, const Communicator& comm) {
  const auto kind = static_cast<unsigned>(c.collective), op = static_cast<unsigned>(c.op);
  if (kind >= kKinds) refuse(comm, "collective: there is none with the number " + std::to_string(kind));
  if (op >= kReduceOps) refuse(comm, "op: there is none with the number " + std::to_string(op));
  Call call;
  call.kind = static_cast<Kind>(kind);
  call.in = c.sendbuff;
  call.out = c.recvbuff;
  call.count = c.count;
  call.dtype = dtype_from(c.datatype, comm);
  call.op = static_cast<ReduceOp>(op);
  call.root = c.root;
  const auto size = static_cast<std::size_t>(comm.size());
  if (call.kind == Kind::all_to_all) {
    if (!c.counts != !c.recvcounts) refuse(comm, "counts and recvcounts: give both or neither");
    if (c.counts) call.send_counts = {c.counts, size};
    if (c.recvcounts) call.recv_counts = {c.recvcounts, size};
  } else if (c.recvcounts) {
    refuse(comm, "recvcounts: only an all-to-all has them");
  } else if (c.counts) {
    call.counts = {c.counts, size};
    call.count = c.counts[comm.rank()];
  }
  return call;
}

}  // namespace lanecast::capi
