// SPDX-License-Identifier: Apache-2.0
// The ABI of the MPI 5.0 standard (libmpi_abi.so): handles are pointers, predefined ones small integers in a pointer.
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace lanecast::mpi {

struct StandardAbi {
  using Comm = struct StandardComm*;
  using Group = struct StandardGroup*;
  using Request = struct StandardRequest*;
  using Datatype = struct StandardDatatype*;
  using Op = struct StandardOp*;
  using Errhandler = struct StandardErrhandler*;
  using Aint = std::intptr_t;
  using Count = std::int64_t;
  struct Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int internal[5];
  };

  static constexpr const char* kName = "MPI-5 standard";
  static constexpr int kTagUpperBound = 501;
  static constexpr int kAnySource = -1;
  static constexpr int kAnyTag = -2;
  static constexpr int kUndefined = -32766;
  static constexpr int kErrTruncate = 15;
  static constexpr bool kTellsTruncatedLength = false;
  static constexpr std::array<int, 4> kThreads{0, 1024, 2048, 4096};  // in the order of MpiThreads

  explicit StandardAbi(void* /*library*/) {
    // In the order of DType; 16- and 8-bit floats travel as integers of their size.
    constexpr std::array<std::uintptr_t, kDTypes> kDatatypes{0x214, 0x210, 0x249, 0x249, 0x241, 0x241, 0x240,
                                                             0x241, 0x248, 0x249, 0x250, 0x251, 0x258, 0x259};
    // In the order of ReduceOp; avg adds.
    constexpr std::array<std::uintptr_t, kReduceOps> kOps{0x21, 0x24, 0x22, 0x23, 0x21, 0x28, 0x29, 0x2a};
    for (int i = 0; i < kDTypes; ++i) datatypes[i] = reinterpret_cast<Datatype>(kDatatypes[i]);
    for (int i = 0; i < kReduceOps; ++i) ops[i] = reinterpret_cast<Op>(kOps[i]);
  }

  Comm world() const { return reinterpret_cast<Comm>(std::uintptr_t{0x101}); }
  Comm self() const { return reinterpret_cast<Comm>(std::uintptr_t{0x102}); }
  Comm null() const { return reinterpret_cast<Comm>(std::uintptr_t{0x100}); }
  static bool is_object(const void* /*given*/) { return false; }  // see OpenMpiAbi: cannot be told
  static bool is_listed(Comm /*comm*/) { return true; }           // the library tells by itself
  Errhandler errors_return() const { return reinterpret_cast<Errhandler>(std::uintptr_t{0x143}); }
  void* in_place() const { return reinterpret_cast<void*>(std::uintptr_t{1}); }
  Datatype byte() const { return reinterpret_cast<Datatype>(std::uintptr_t{0x247}); }

  std::array<Datatype, kDTypes> datatypes;
  std::array<Op, kReduceOps> ops;
};

}  // namespace lanecast::mpi
