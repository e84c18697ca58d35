// SPDX-License-Identifier: Apache-2.0
// The MPICH ABI (MPICH 3.1 and later, Intel MPI, Cray MPICH, MVAPICH): handles are ints that carry their kind and, for
// predefined types, their size.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace lanecast::mpi {

struct MpichAbi {
  using Comm = int;
  using Group = int;
  using Request = int;
  using Datatype = int;
  using Op = int;
  using Errhandler = int;
  using Aint = std::intptr_t;
  using Count = long long;
  struct Status {
    int count_low;
    int count_high_and_cancelled;
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
  };

  static constexpr const char* kName = "MPICH";
  static constexpr int kTagUpperBound = 0x64400001;
  static constexpr int kAnySource = -2;
  static constexpr int kAnyTag = -1;
  static constexpr int kUndefined = -32766;
  static constexpr int kErrTruncate = 14;
  static constexpr bool kTellsTruncatedLength = false;
  static constexpr std::array<int, 4> kThreads{0, 1, 2, 3};  // in the order of MpiThreads

  explicit MpichAbi(void* /*library*/) {}

  Comm world() const { return 0x44000000; }
  Comm self() const { return 0x44000001; }
  Comm null() const { return 0x04000000; }
  static bool is_object(const void* /*given*/) { return false; }  // see OpenMpiAbi: cannot be told
  static bool is_listed(Comm /*comm*/) { return true; }           // the library tells by itself
  Errhandler errors_return() const { return 0x54000001; }
  void* in_place() const { return reinterpret_cast<void*>(std::intptr_t{-1}); }
  Datatype byte() const { return 0x4c00010d; }

  // In the order of DType; 16- and 8-bit floats travel as integers of their size.
  std::array<Datatype, kDTypes> datatypes{
      0x4c00080b, 0x4c00040a, 0x4c00023c, 0x4c00023c, 0x4c00013b, 0x4c00013b,  // floats
      0x4c000137, 0x4c00013b, 0x4c000238, 0x4c00023c, 0x4c000439, 0x4c00043d, 0x4c00083a, 0x4c00083e};
  // In the order of ReduceOp; avg adds.
  std::array<Op, kReduceOps> ops{0x58000003, 0x58000004, 0x58000002, 0x58000001,
                                 0x58000003, 0x58000006, 0x58000008, 0x5800000a};
};

}  // namespace lanecast::mpi
