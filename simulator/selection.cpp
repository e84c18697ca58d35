// SPDX-License-Identifier: Apache-2.0
#include "selection.h"

#include <mpi.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <simgrid/s4u.hpp>
#include <vector>

#include "device.h"
#include "device/host/kernels.h"

namespace lanecast::simulator {
namespace {

/// Takes the time of a sum on the device, and sums where there is something to sum.
void add(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  const void* const sources[] = {inout, in};
  host::reduce(DType::int64, ReduceOp::sum, inout, sources, static_cast<std::size_t>(*count));
  simgrid::s4u::this_actor::sleep_for(take_owed_s());
}

/// MPI counts in ints.
int as_int(std::size_t count) { return static_cast<int>(count); }

}  // namespace

void prepare_selection() {
  std::vector<std::int64_t> some(std::size_t{1} << 14);
  MPI_Allreduce(MPI_IN_PLACE, some.data(), as_int(some.size()), MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
}

void run_selected(const Call& call, int rank) {
  MPI_Op sum = MPI_OP_NULL;
  MPI_Op_create(add, /*commute=*/1, &sum);
  const int count = as_int(call.count);
  const MPI_Datatype type = MPI_INT64_T;
  const MPI_Comm all = MPI_COMM_WORLD;
  const bool is_root = rank == call.root;
  const void* const in_place = MPI_IN_PLACE;  // NOLINT(performance-no-int-to-ptr)
  // Two buffers of what is added: of one, SMPI would make a copy that takes real memory.
  std::unique_ptr<std::byte[]> own;
  if (call.kind == Kind::all_reduce || call.kind == Kind::reduce) {
    const std::size_t bytes = call.count * sizeof(std::int64_t);
    own = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (holds_data()) std::memcpy(own.get(), call.in, bytes);
  }
  switch (call.kind) {
    case Kind::all_gather:
      MPI_Allgather(in_place, 0, MPI_DATATYPE_NULL, call.out, count, type, all);
      break;
    case Kind::reduce_scatter:
      MPI_Reduce_scatter_block(call.in, call.out, count, type, sum, all);
      break;
    case Kind::all_reduce:
      MPI_Allreduce(own.get(), call.out, count, type, sum, all);
      break;
    case Kind::broadcast:
      MPI_Bcast(call.out, count, type, call.root, all);
      break;
    case Kind::reduce:
      MPI_Reduce(own.get(), is_root ? call.out : nullptr, count, type, sum, call.root, all);
      break;
    case Kind::gather:
      MPI_Gather(is_root ? in_place : call.in, count, type, call.out, count, type, call.root, all);
      break;
    case Kind::scatter:
      MPI_Scatter(call.in, count, type, is_root ? MPI_IN_PLACE : call.out, count, type, call.root, all);
      break;
    case Kind::all_to_all:
      MPI_Alltoall(call.in, count, type, call.out, count, type, all);
      break;
    case Kind::composition:
      break;
  }
  MPI_Op_free(&sum);
}

}  // namespace lanecast::simulator

// SMPI's allgather by "ring" is an exchange with ever farther ranks; what Open MPI, MPICH and MVAPICH2 mean by that
// name passes parts on between neighbours, which SMPI has under another name. Exported, so that SMPI's selections find
// this one first.
namespace simgrid::smpi {
int allgather__NTSLR(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
int allgather__bruck(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);
int allgather__ring(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                    MPI_Comm comm) {
  const bool is_preparation = in_type == MPI_INT;  // who is on which host, which is not timed; calls are of MPI_INT64_T
  return (is_preparation ? allgather__bruck : allgather__NTSLR)(in, in_count, in_type, out, out_count, out_type, comm);
}
}  // namespace simgrid::smpi
