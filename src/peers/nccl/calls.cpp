// SPDX-License-Identifier: Apache-2.0
#include "peers/nccl/calls.h"

#include <array>
#include <string>
#include <type_traits>

#include "base/error.h"

namespace lanecast::nccl {
namespace {

int op_of(ReduceOp op) {
  constexpr std::array kOps{0, 1, 3, 2, 4};  // ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg, as ReduceOp has them
  return kOps.at(static_cast<std::size_t>(op));
}

/// As ncclDataType_t; −1 for types that NCCL does not add.
int type_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return 0;
    case DType::uint8:
      return gpu::kNcclUint8;
    case DType::int32:
      return 2;
    case DType::uint32:
      return 3;
    case DType::int64:
      return 4;
    case DType::uint64:
      return 5;
    case DType::float16:
      return 6;
    case DType::float32:
      return 7;
    case DType::float64:
      return 8;
    case DType::bfloat16:
      return 9;
    default:
      return -1;
  }
}

/// The k-th of equal shares.
template <class Memory>
Memory* share(Memory* memory, int k, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<Memory>, const std::byte, std::byte>;
  return static_cast<Byte*>(memory) + static_cast<std::size_t>(k) * bytes;
}

/// Messages of equal shares, all in one group. What a rank has for itself is one of them; in place nothing moves.
int exchange(const gpu::Nccl& nccl, const NcclRank& me, const NcclCollective& call, gpu::Stream stream) {
  const std::size_t bytes = call.count * size_of(call.dtype);
  const bool is_root = me.rank == call.root, to_all = call.kind == Kind::all_to_all;
  int result = nccl.GroupStart();
  const auto send = [&](const void* from, int peer) {
    if (result == gpu::kNcclSuccess) result = nccl.Send(from, bytes, gpu::kNcclUint8, peer, me.comm, stream);
  };
  const auto receive = [&](void* to, int peer) {
    if (result == gpu::kNcclSuccess) result = nccl.Recv(to, bytes, gpu::kNcclUint8, peer, me.comm, stream);
  };
  const auto moves = [&](int peer, const void* from, const void* to) { return peer != me.rank || from != to; };
  if (call.kind == Kind::gather && !(is_root && call.in == share(call.out, me.rank, bytes))) send(call.in, call.root);
  if (call.kind == Kind::scatter && !(is_root && call.out == share(call.in, me.rank, bytes)))
    receive(call.out, call.root);
  for (int peer = 0; peer < me.size; ++peer) {
    if (to_all || (is_root && call.kind == Kind::scatter && moves(peer, share(call.in, peer, bytes), call.out)))
      send(share(call.in, peer, bytes), peer);
    if (to_all || (is_root && call.kind == Kind::gather && moves(peer, call.in, share(call.out, peer, bytes))))
      receive(share(call.out, peer, bytes), peer);
  }
  const int ended = nccl.GroupEnd();
  return result == gpu::kNcclSuccess ? ended : result;
}

}  // namespace

bool adds(DType dtype) { return type_of(dtype) >= 0; }

int run(const gpu::Nccl& nccl, const NcclRank& me, const NcclCollective& call, gpu::Stream stream) {
  if (call.count == 0) return gpu::kNcclSuccess;
  const std::size_t bytes = call.count * size_of(call.dtype);
  const int type = type_of(call.dtype), op = op_of(call.op);
  switch (call.kind) {
    case Kind::all_gather:
      return nccl.AllGather(call.in, call.out, bytes, gpu::kNcclUint8, me.comm, stream);
    case Kind::broadcast:
      return nccl.Broadcast(call.in, call.out, bytes, gpu::kNcclUint8, call.root, me.comm, stream);
    case Kind::reduce_scatter:
      return nccl.ReduceScatter(call.in, call.out, call.count, type, op, me.comm, stream);
    case Kind::all_reduce:
      return nccl.AllReduce(call.in, call.out, call.count, type, op, me.comm, stream);
    case Kind::reduce:
      return nccl.Reduce(call.in, call.out, call.count, type, op, call.root, me.comm, stream);
    case Kind::gather:
    case Kind::scatter:
    case Kind::all_to_all:
      return exchange(nccl, me, call, stream);
    default:
      throw InternalError("NCCL: no call for " + std::string(name_of(call.kind)));
  }
}

}  // namespace lanecast::nccl
