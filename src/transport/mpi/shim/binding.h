// SPDX-License-Identifier: Apache-2.0
// One MPI library ready for use: its ABI, its functions, and how its error codes become exceptions.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "transport/mpi/api.h"
#include "transport/mpi/shim/functions.h"
#include "transport/mpi/shim/operators.h"

namespace lanecast::mpi {

inline bool fits_int(std::size_t count) { return count <= static_cast<std::size_t>(INT_MAX); }

template <class Abi>
struct Binding {
  using Comm = typename Abi::Comm;

  Abi abi;
  Functions<Abi> functions;
  std::shared_ptr<Operators<Abi>> operators = std::make_shared<Operators<Abi>>();

  static MpiComm wrap(Comm comm) {
    if constexpr (std::is_pointer_v<Comm>)
      return MpiComm{reinterpret_cast<std::uintptr_t>(comm)};
    else
      return MpiComm{static_cast<std::uint32_t>(comm)};
  }

  static Comm unwrap(MpiComm comm) {
    if constexpr (std::is_pointer_v<Comm>)
      return reinterpret_cast<Comm>(static_cast<std::uintptr_t>(comm));
    else
      return static_cast<Comm>(static_cast<std::uint32_t>(comm));
  }

  int rank(Comm comm) const {
    int rank = -1;
    check(functions.calls.Comm_rank(comm, &rank), "MPI_Comm_rank");
    return rank;
  }

  int size(Comm comm) const {
    int size = 0;
    check(functions.calls.Comm_size(comm, &size), "MPI_Comm_size");
    return size;
  }

  bool truncation(int code) const {
    int error_class = 0;
    functions.calls.Error_class(code, &error_class);
    return error_class == Abi::kErrTruncate;
  }

  std::string describe(int code) const {
    std::string text(1024, '\0');  // above every library's MPI_MAX_ERROR_STRING
    int length = 0;
    if (functions.calls.Error_string(code, text.data(), &length) != 0) return "error code " + std::to_string(code);
    text.resize(length);
    return text;
  }

  typename Abi::Op op_of(const MpiCollective& call) const {
    if (call.add == nullptr) return abi.ops[static_cast<std::size_t>(call.op)];
    typename Abi::Op op{};
    const auto make = [this](GroupAdd* add, typename Abi::Op* made) {
      // Of our functions' arguments the last one is a pointer to a handle, which they do not look at.
      using Function = typename Calls<Abi>::UserFunction;
      return functions.calls.Op_create(reinterpret_cast<Function*>(add), 1, made);
    };
    check(operators->find(call.add, op, make), "MPI_Op_create");
    return op;
  }

  /// Counts beyond an int: operators of ours are handed ints.
  bool takes_large(const MpiCollective& call) const { return functions.has_large() && call.add == nullptr; }

  void check(int code, const char* call) const {
    if (code != 0) fail(code, call);
  }

  [[noreturn]] void fail(int code, const std::string& what) const {
    int rank = -1;
    functions.calls.Comm_rank(abi.world(), &rank);
    throw TransportError("rank " + std::to_string(rank) + " of MPI_COMM_WORLD: " + what + " failed: " + describe(code));
  }
};

}  // namespace lanecast::mpi
