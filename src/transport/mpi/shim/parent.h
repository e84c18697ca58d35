// SPDX-License-Identifier: Apache-2.0
// What a user gives as an MPI communicator, before anything is made of it.
#pragma once

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "transport/mpi/launcher.h"
#include "transport/mpi/shim/binding.h"

namespace lanecast::mpi {

/// Errors of calls with a handle that is none are raised on these two, whose handler usually ends the job.
template <class Abi>
class ErrorsReturned {
 public:
  explicit ErrorsReturned(const Binding<Abi>& mpi) : mpi_(mpi) {
    for (Handler& each : handlers_) {
      each.known = mpi.functions.calls.Comm_get_errhandler(each.comm, &each.handler) == 0;
      mpi.functions.calls.Comm_set_errhandler(each.comm, mpi.abi.errors_return());
    }
  }
  ~ErrorsReturned() {
    for (Handler& each : handlers_) {
      if (!each.known) continue;
      mpi_.functions.calls.Comm_set_errhandler(each.comm, each.handler);
      mpi_.functions.calls.Errhandler_free(&each.handler);
    }
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;

 private:
  struct Handler {
    typename Abi::Comm comm;
    typename Abi::Errhandler handler{};
    bool known = false;
  };
  const Binding<Abi>& mpi_;
  Handler handlers_[2] = {{mpi_.abi.world()}, {mpi_.abi.self()}};
};

/// True as well where the kernel does not let us ask.
inline bool is_readable(const void* address, std::size_t bytes) {
  std::byte copy[sizeof(void*)];
  const iovec to{copy, bytes}, from{const_cast<void*>(address), bytes};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) >= 0 || errno != EFAULT;
}

/// Not where it is a handle itself: where these are pointers one passes for an address without a word from the
/// compiler.
template <class Abi>
bool holds_handle(const Binding<Abi>& mpi, const void* given) {
  using Comm = typename Abi::Comm;
  if (!is_readable(given, sizeof(Comm)) || mpi.abi.is_object(given)) return false;
  for (const Comm comm : {mpi.abi.world(), mpi.abi.self(), mpi.abi.null()}) {
    if (reinterpret_cast<std::uintptr_t>(given) == static_cast<std::uintptr_t>(mpi.wrap(comm))) return false;
    if (*static_cast<const Comm*>(given) == comm) return true;
  }
  if constexpr (std::is_pointer_v<Comm>) {
    const Comm comm = *static_cast<const Comm*>(given);
    return comm == nullptr || is_readable(static_cast<const void*>(comm), sizeof(void*));
  }
  return true;
}

/// Throws UsageError for an address at which no communicator of one group of ranks lies. initialized: has MPI been
/// started, other than by a session?
template <class Abi>
void check_parent(const Binding<Abi>& mpi, const void* mpi_comm, bool initialized) {
  std::string who;
  if (int rank = 0; initialized && mpi.functions.calls.Comm_rank(mpi.abi.world(), &rank) == 0)
    who = "rank " + std::to_string(rank) + " of MPI_COMM_WORLD: ";
  const auto refuse = [&](const std::string& why) { throw UsageError(who + why); };
  if (!holds_handle(mpi, mpi_comm))
    refuse(
        "there is no MPI communicator at the address given: pass the address of an MPI_Comm and not the MPI_Comm "
        "itself, or a null pointer for MPI_COMM_WORLD");
  const auto comm = *static_cast<const typename Abi::Comm*>(mpi_comm);
  if (comm == mpi.abi.null() || comm == typename Abi::Comm{})
    refuse(
        "the MPI communicator is MPI_COMM_NULL: it has been freed, or was made without this process; only those that "
        "are ranks of it can make a communicator of it");
  if (comm == mpi.abi.world() || comm == mpi.abi.self()) return;
  const auto refuse_unknown = [&](const std::string& words) {
    refuse("MPI does not know the communicator (" + words + "): has it been freed?");
  };
  if (initialized && !mpi.abi.is_listed(comm)) refuse_unknown("no such handle");
  int is_between_groups = 0, code = 0;
  const auto ask = [&] { code = mpi.functions.calls.Comm_test_inter(comm, &is_between_groups); };
  if (initialized) {
    const ErrorsReturned<Abi> returned(mpi);
    ask();
  } else {
    ask();  // of a session, without the two
  }
  if (code != 0) {
    const std::string words = mpi.describe(code);
    refuse_unknown(words.substr(0, words.find_first_of(",\n")));
  }
  if (is_between_groups != 0)
    refuse(
        "the MPI communicator is an intercommunicator, as MPI_Comm_spawn and MPI_Comm_get_parent give them: merge its "
        "two groups and give the result, by MPI_Intercomm_merge, in mpi4py comm.Merge()");
  const int job = detect_launcher().ranks, members = initialized || job == 0 ? job : mpi.size(comm);
  if (members < job)
    refuse("the MPI communicator is of a session, with " + std::to_string(members) + " of the job's " +
           std::to_string(job) + " ranks: have all ranks start MPI beside it before (MPI_Init_thread, in mpi4py " +
           "MPI.Init_thread()), which waits for all of them");
}

}  // namespace lanecast::mpi
