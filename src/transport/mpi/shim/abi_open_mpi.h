// SPDX-License-Identifier: Apache-2.0
// The Open MPI ABI (versions 3 to 5): handles are pointers, predefined ones the addresses of exported objects.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace lanecast::mpi {

struct OpenMpiAbi {
  using Comm = struct OpenMpiComm*;
  using Group = struct OpenMpiGroup*;
  using Request = struct OpenMpiRequest*;
  using Datatype = struct OpenMpiDatatype*;
  using Op = struct OpenMpiOp*;
  using Errhandler = struct OpenMpiErrhandler*;
  using Aint = std::ptrdiff_t;
  using Count = long long;
  struct Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int cancelled;
    std::size_t byte_count;
  };

  static constexpr const char* kName = "Open MPI";
  static constexpr int kTagUpperBound = 0;
  static constexpr int kAnySource = -1;
  static constexpr int kAnyTag = -1;
  static constexpr int kUndefined = -32766;
  static constexpr int kErrTruncate = 15;
  static constexpr bool kTellsTruncatedLength = true;
  static constexpr std::array<int, 4> kThreads{0, 1, 2, 3};  // in the order of MpiThreads

  explicit OpenMpiAbi(void* library) {
    // In the order of DType; 16- and 8-bit floats travel as integers of their size.
    constexpr std::array<const char*, kDTypes> kDatatypes{"double",  "float",    "uint16_t", "uint16_t", "uint8_t",
                                                          "uint8_t", "int8_t",   "uint8_t",  "int16_t",  "uint16_t",
                                                          "int32_t", "uint32_t", "int64_t",  "uint64_t"};
    // In the order of ReduceOp; avg adds.
    constexpr std::array<const char*, kReduceOps> kOps{"sum", "prod", "min", "max", "sum", "band", "bor", "bxor"};
    for (int i = 0; i < kDTypes; ++i) datatypes[i] = object<Datatype>(library, kDatatypes[i]);
    for (int i = 0; i < kReduceOps; ++i) ops[i] = object<Op>(library, std::string("op_") + kOps[i]);
    world_ = object<Comm>(library, "comm_world");
    self_ = object<Comm>(library, "comm_self");
    null_ = object<Comm>(library, "comm_null");
    errors_return_ = object<Errhandler>(library, "errors_return");
    byte_ = object<Datatype>(library, "byte");
    number_of_ = reinterpret_cast<int (*)(Comm)>(dlsym(library, "MPI_Comm_c2f"));
    of_number_ = reinterpret_cast<Comm (*)(int)>(dlsym(library, "MPI_Comm_f2c"));
  }

  Comm world() const { return world_; }
  Comm self() const { return self_; }
  Comm null() const { return null_; }
  /// Whether a communicator lies there and not the address of one: all begin with the same word, which names their
  /// class.
  bool is_object(const void* given) const {
    const void* const of_all = *reinterpret_cast<void* const*>(world_);
    return of_all != nullptr && *static_cast<void* const*>(given) == of_all;
  }
  /// Whether MPI has such a communicator. Its own checks look at the object, of which the allocator may have made
  /// anything once it was freed; the list by which Fortran names communicators has each that lives.
  bool is_listed(Comm comm) const {
    return number_of_ == nullptr || of_number_ == nullptr || of_number_(number_of_(comm)) == comm;
  }
  Errhandler errors_return() const { return errors_return_; }
  void* in_place() const { return reinterpret_cast<void*>(std::uintptr_t{1}); }
  Datatype byte() const { return byte_; }

  std::array<Datatype, kDTypes> datatypes;
  std::array<Op, kReduceOps> ops;

 private:
  template <class Handle>
  static Handle object(void* library, const std::string& name) {
    const std::string symbol = "ompi_mpi_" + name;
    // Global scope first, as the library itself binds: a program linked to Open MPI may hold the one valid copy.
    void* address = dlsym(RTLD_DEFAULT, symbol.c_str());
    if (address == nullptr) address = dlsym(library, symbol.c_str());
    if (address == nullptr) throw TransportError("the Open MPI found has no symbol " + symbol + "; use version 3 to 5");
    return static_cast<Handle>(address);
  }

  Comm world_;
  Comm self_;
  Comm null_;
  Errhandler errors_return_;
  Datatype byte_;
  int (*number_of_)(Comm) = nullptr;
  Comm (*of_number_)(int) = nullptr;
};

}  // namespace lanecast::mpi
