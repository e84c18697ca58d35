// SPDX-License-Identifier: Apache-2.0
// The MPI calls in use, as tables of function pointers over an ABI's types. One list serves three ends: the tables'
// members, their look-up by name in a loaded library, and their binding to a real mpi.h, which checks every signature.
#pragma once

namespace lanecast::mpi {

// clang-format off
#define LANECAST_MPI_CALLS(CALL)                                                                \
  CALL(Init_thread, int*, char***, int, int*)                                                   \
  CALL(Query_thread, int*)                                                                      \
  CALL(Initialized, int*)                                                                       \
  CALL(Finalized, int*)                                                                         \
  CALL(Finalize)                                                                                \
  CALL(Get_library_version, char*, int*)                                                        \
  CALL(Error_string, int, char*, int*)                                                          \
  CALL(Error_class, int, int*)                                                                  \
  CALL(Comm_rank, Comm, int*)                                                                   \
  CALL(Comm_size, Comm, int*)                                                                   \
  CALL(Comm_idup, Comm, Comm*, Request*)                                                        \
  CALL(Comm_split, Comm, int, int, Comm*)                                                       \
  CALL(Comm_group, Comm, Group*)                                                                \
  CALL(Group_incl, Group, int, const int*, Group*)                                              \
  CALL(Group_free, Group*)                                                                      \
  CALL(Comm_create_group, Comm, Group, int, Comm*)                                              \
  CALL(Comm_free, Comm*)                                                                        \
  CALL(Comm_set_errhandler, Comm, Errhandler)                                                   \
  CALL(Comm_get_attr, Comm, int, void*, int*)                                                   \
  CALL(Comm_set_attr, Comm, int, void*)                                                         \
  CALL(Comm_delete_attr, Comm, int)                                                             \
  CALL(Comm_create_keyval, CopyAttribute*, DeleteAttribute*, int*, void*)                       \
  CALL(Comm_free_keyval, int*)                                                                  \
  CALL(Iprobe, int, int, Comm, int*, Status*)                                                   \
  CALL(Barrier, Comm)                                                                           \
  CALL(Op_create, UserFunction*, int, Op*)                                                      \
  CALL(Op_free, Op*)                                                                            \
  CALL(Testsome, int, Request*, int*, int*, Status*)                                            \
  CALL(Waitsome, int, Request*, int*, int*, Status*)                                            \
  CALL(Cancel, Request*)                                                                        \
  CALL(Request_free, Request*)                                                                  \
  CALL(Type_contiguous, int, Datatype, Datatype*)                                               \
  CALL(Type_create_struct, int, const int*, const Aint*, const Datatype*, Datatype*)            \
  CALL(Type_commit, Datatype*)                                                                  \
  CALL(Type_free, Datatype*)

// Calls with element counts exist twice: with int, and since MPI 4 with MPI_Count under the suffix _c.
#define LANECAST_MPI_COUNTED_CALLS(CALL)                                                                      \
  CALL(Isend, const void*, Count, Datatype, int, int, Comm, Request*)                                         \
  CALL(Irecv, void*, Count, Datatype, int, int, Comm, Request*)                                               \
  CALL(Get_count, const Status*, Datatype, Count*)                                                            \
  CALL(Allgather, const void*, Count, Datatype, void*, Count, Datatype, Comm)                                 \
  CALL(Iallgather, const void*, Count, Datatype, void*, Count, Datatype, Comm, Request*)                      \
  CALL(Allgatherv, const void*, Count, Datatype, void*, const Count*, const Offset*, Datatype, Comm)          \
  CALL(Iallgatherv, const void*, Count, Datatype, void*, const Count*, const Offset*, Datatype, Comm, Request*) \
  CALL(Reduce_scatter, const void*, void*, const Count*, Datatype, Op, Comm)                                  \
  CALL(Ireduce_scatter, const void*, void*, const Count*, Datatype, Op, Comm, Request*)                       \
  CALL(Reduce_scatter_block, const void*, void*, Count, Datatype, Op, Comm)                                   \
  CALL(Ireduce_scatter_block, const void*, void*, Count, Datatype, Op, Comm, Request*)                        \
  CALL(Allreduce, const void*, void*, Count, Datatype, Op, Comm)                                              \
  CALL(Iallreduce, const void*, void*, Count, Datatype, Op, Comm, Request*)                                   \
  CALL(Bcast, void*, Count, Datatype, int, Comm)                                                              \
  CALL(Ibcast, void*, Count, Datatype, int, Comm, Request*)                                                   \
  CALL(Reduce, const void*, void*, Count, Datatype, Op, int, Comm)                                            \
  CALL(Ireduce, const void*, void*, Count, Datatype, Op, int, Comm, Request*)                                 \
  CALL(Gather, const void*, Count, Datatype, void*, Count, Datatype, int, Comm)                               \
  CALL(Igather, const void*, Count, Datatype, void*, Count, Datatype, int, Comm, Request*)                    \
  CALL(Gatherv, const void*, Count, Datatype, void*, const Count*, const Offset*, Datatype, int, Comm)        \
  CALL(Igatherv, const void*, Count, Datatype, void*, const Count*, const Offset*, Datatype, int, Comm, Request*) \
  CALL(Scatter, const void*, Count, Datatype, void*, Count, Datatype, int, Comm)                              \
  CALL(Iscatter, const void*, Count, Datatype, void*, Count, Datatype, int, Comm, Request*)                   \
  CALL(Scatterv, const void*, const Count*, const Offset*, Datatype, void*, Count, Datatype, int, Comm)       \
  CALL(Iscatterv, const void*, const Count*, const Offset*, Datatype, void*, Count, Datatype, int, Comm, Request*) \
  CALL(Alltoall, const void*, Count, Datatype, void*, Count, Datatype, Comm)                                  \
  CALL(Ialltoall, const void*, Count, Datatype, void*, Count, Datatype, Comm, Request*)                       \
  CALL(Alltoallv, const void*, const Count*, const Offset*, Datatype, void*, const Count*, const Offset*,     \
       Datatype, Comm)                                                                                        \
  CALL(Ialltoallv, const void*, const Count*, const Offset*, Datatype, void*, const Count*, const Offset*,    \
       Datatype, Comm, Request*)
// clang-format on

#define LANECAST_MPI_MEMBER(name, ...) int (*name)(__VA_ARGS__) = nullptr;

template <class Types>
struct Calls {
  using Comm = typename Types::Comm;
  using Group = typename Types::Group;
  using Request = typename Types::Request;
  using Datatype = typename Types::Datatype;
  using Op = typename Types::Op;
  using Errhandler = typename Types::Errhandler;
  using Status = typename Types::Status;
  using Aint = typename Types::Aint;
  using UserFunction = void(void*, void*, int*, Datatype*);
  using CopyAttribute = int(Comm, int, void*, void*, void*, int*);
  using DeleteAttribute = int(Comm, int, void*, void*);
  LANECAST_MPI_CALLS(LANECAST_MPI_MEMBER)
};

template <class Types, class CountType, class OffsetType>
struct CountedCalls {
  using Comm = typename Types::Comm;
  using Request = typename Types::Request;
  using Datatype = typename Types::Datatype;
  using Op = typename Types::Op;
  using Status = typename Types::Status;
  using Count = CountType;
  using Offset = OffsetType;
  LANECAST_MPI_COUNTED_CALLS(LANECAST_MPI_MEMBER)
};

#undef LANECAST_MPI_MEMBER

/// Every call of one library. `large` is whole or empty: Open MPI 5 and MPI 3 in general have no _c calls.
template <class Types>
struct Functions {
  Calls<Types> calls;
  CountedCalls<Types, int, int> small;
  CountedCalls<Types, typename Types::Count, typename Types::Aint> large;
  /// Bytes of a message of 2^31 or more where Get_count has only an int to answer with.
  int (*Get_elements_x)(const typename Types::Status*, typename Types::Datatype, typename Types::Count*) = nullptr;
  // Of GPUs' memory, as an MPI has them: Open MPI and MVAPICH the first two, MPICH and what came of it the last.
  int (*Query_cuda_support)() = nullptr;
  int (*Query_rocm_support)() = nullptr;
  int (*GPU_query_support)(int type, int* is_supported) = nullptr;

  bool has_large() const { return large.Isend != nullptr; }
};

}  // namespace lanecast::mpi
