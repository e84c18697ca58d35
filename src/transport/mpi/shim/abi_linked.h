// SPDX-License-Identifier: Apache-2.0
// The MPI whose mpi.h this file is compiled against, linked as usual (option LANECAST_MPI_HEADER). Some MPIs cannot be
// opened at run time: a simulator's, for one, whose predefined handles are calls that depend on who asks.
#pragma once

#include <mpi.h>

#include <array>

#include "base/dtype.h"
#include "transport/mpi/shim/functions.h"

namespace lanecast::mpi {

struct LinkedAbi {
  using Comm = MPI_Comm;
  using Group = MPI_Group;
  using Request = MPI_Request;
  using Datatype = MPI_Datatype;
  using Op = MPI_Op;
  using Errhandler = MPI_Errhandler;
  using Aint = MPI_Aint;
  using Count = MPI_Count;
  using Status = MPI_Status;

  static constexpr const char* kName = "mpi.h";
  static constexpr int kTagUpperBound = MPI_TAG_UB;
  static constexpr int kAnySource = MPI_ANY_SOURCE;
  static constexpr int kAnyTag = MPI_ANY_TAG;
  static constexpr int kUndefined = MPI_UNDEFINED;
  static constexpr int kErrTruncate = MPI_ERR_TRUNCATE;
  static constexpr bool kTellsTruncatedLength = false;
  static constexpr std::array<int, 4> kThreads{MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                               MPI_THREAD_MULTIPLE};

  Comm world() const { return MPI_COMM_WORLD; }
  Comm self() const { return MPI_COMM_SELF; }
  Comm null() const { return MPI_COMM_NULL; }
  static bool is_object(const void* /*given*/) { return false; }  // see OpenMpiAbi: cannot be told
  static bool is_listed(Comm /*comm*/) { return true; }           // the library tells by itself
  Errhandler errors_return() const { return MPI_ERRORS_RETURN; }
  void* in_place() const { return MPI_IN_PLACE; }
  Datatype byte() const { return MPI_BYTE; }

  // In the order of DType; 16- and 8-bit floats travel as integers of their size.
  std::array<Datatype, kDTypes> datatypes{MPI_DOUBLE,  MPI_FLOAT,    MPI_UINT16_T, MPI_UINT16_T, MPI_UINT8_T,
                                          MPI_UINT8_T, MPI_INT8_T,   MPI_UINT8_T,  MPI_INT16_T,  MPI_UINT16_T,
                                          MPI_INT32_T, MPI_UINT32_T, MPI_INT64_T,  MPI_UINT64_T};
  // In the order of ReduceOp; avg adds.
  std::array<Op, kReduceOps> ops{MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_SUM, MPI_BAND, MPI_BOR, MPI_BXOR};
};

inline Functions<LinkedAbi> linked_functions() {
  Functions<LinkedAbi> functions;
#define LANECAST_MPI_LINK(name, ...) functions.calls.name = &MPI_##name;
  LANECAST_MPI_CALLS(LANECAST_MPI_LINK)
#undef LANECAST_MPI_LINK
#define LANECAST_MPI_LINK(name, ...) functions.small.name = &MPI_##name;
  LANECAST_MPI_COUNTED_CALLS(LANECAST_MPI_LINK)
#undef LANECAST_MPI_LINK
#if MPI_VERSION >= 4
#define LANECAST_MPI_LINK(name, ...) functions.large.name = &MPI_##name##_c;
  LANECAST_MPI_COUNTED_CALLS(LANECAST_MPI_LINK)
#undef LANECAST_MPI_LINK
#endif
  // Through a call, because not every header takes the status as const.
  functions.Get_elements_x = [](const MPI_Status* status, MPI_Datatype type, MPI_Count* count) {
    return MPI_Get_elements_x(const_cast<MPI_Status*>(status), type, count);
  };
  return functions;
}

}  // namespace lanecast::mpi
