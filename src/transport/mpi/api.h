// SPDX-License-Identifier: Apache-2.0
// MPI as this library sees it. No MPI type appears here: handle types, constants and status layout differ between
// MPICH, Open MPI and the MPI-5 standard ABI, and which of them serves is known only when the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/gpu_vendor.h"
#include "base/own_process.h"
#include "transport/groups.h"

namespace lanecast {

enum class MpiComm : std::uint64_t {};  // the bits of an MPI_Comm
enum class MpiThreads : std::uint8_t { single, funneled, serialized, multiple };
/// Threads that call MPI when another one ends it: their calls fail, or they stay where they are until the process has
/// ended. Nobody may wait for the latter.
enum class MpiLatecomers : std::uint8_t { fail, stay };

/// What was found, for `lanecast info`.
struct MpiLibrary {
  std::string path;
  std::string abi;      // "MPICH", "Open MPI", "MPI-5 standard", or "mpi.h" when compiled against a header
  std::string version;  // as MPI_Get_library_version says, first clause
};

struct MpiMessage {
  MpiComm comm{};
  int peer = -1;
  int tag = 0;
  void* data = nullptr;
  std::size_t bytes = 0;  // any size; no limit at 2^31
};

struct MpiCollective {
  MpiComm comm{};
  Kind kind{};
  DType dtype{};
  ReduceOp op{};            // avg adds like sum
  GroupAdd* add = nullptr;  // instead of `op`, where set
  /// Unused when in_place. A reduce-scatter's `out` may lie within it; no other overlap is allowed.
  const void* in = nullptr;
  void* out = nullptr;
  std::span<const std::size_t> counts;  // as GroupCall::counts
  /// In MPI's sense: the input is in `out`, for an all-gather or a gather's root at this rank's place; a scatter's root
  /// keeps its share in `in`. A reduce-scatter reads all of `out` and leaves its result at the front.
  bool in_place = false;
  int root = 0;             // member, of the kinds that have one
  bool own_counts = false;  // as GroupCall::own_counts
};

/// Whether MPI has a predefined reduction for the type; 16- and 8-bit floats have none.
constexpr bool mpi_reduces(DType dtype) {
  return dtype != DType::float16 && dtype != DType::bfloat16 && dtype != DType::float8_e4m3 &&
         dtype != DType::float8_e5m2;
}

struct MpiCompletion {
  void* owner = nullptr;
  bool receive = false;
  bool truncated = false;  // receive: the message was longer than its buffer
  std::size_t bytes = 0;   // receive: the message's length; 0 after a truncation where the library does not tell
  std::string error;       // MPI's words; empty when all went well
};

/// Operations under way. Each is posted with an owner, which comes back when it has finished; buffers stay valid until
/// then. Must not outlive its MpiApi.
class MpiRequests {
 public:
  virtual ~MpiRequests() = default;
  virtual void send(const MpiMessage& message, void* owner) = 0;
  virtual void receive(const MpiMessage& message, void* owner) = 0;
  virtual void post(const MpiCollective& call, void* owner) = 0;

  /// Appends what has finished, without blocking (test) or after blocking for at least one (wait; none when empty).
  virtual void test(std::vector<MpiCompletion>& done) = 0;
  virtual void wait(std::vector<MpiCompletion>& done) = 0;
  virtual bool empty() const = 0;

  /// Gives up whatever is left without waiting for any peer. MPI can recall a receive that has met no message yet, and
  /// nothing else: the memory of a send or of a receive half way is MPI's until its peer has answered.
  virtual void abandon() = 0;
};

/// A communicator that MPI makes: to be called until it is there. Must not outlive its MpiApi.
using MpiMaking = std::function<std::optional<MpiComm>()>;

class MpiApi {
 public:
  virtual ~MpiApi() = default;
  virtual const MpiLibrary& library() const = 0;

  virtual bool initialized() const = 0;
  virtual bool finalized() const = 0;  // or another thread is about to
  /// Never in a process forked from the one that opened it: MPI is its parent's.
  bool alive() const { return process_.here() && initialized() && !finalized(); }
  /// Starts MPI unless it runs already, with errors that return; gives back the level of thread support.
  virtual MpiThreads init_thread(MpiThreads wanted) = 0;
  /// Has init_thread started it? Then nobody else had a message under way before.
  virtual bool started_here() const = 0;
  /// Ends MPI if init_thread started it. Not where a thread stays in it, since MPI would wait there as well.
  virtual void finalize(MpiLatecomers latecomers) = 0;

  virtual MpiComm world() const = 0;
  /// Throws UsageError, without a call of others, where of a user's MPI_Comm at this address, null: MPI_COMM_WORLD, no
  /// communicator can be made: MPI has ended or is another process's, it is no MPI_Comm, or one between two groups.
  virtual void check_parent(const void* mpi_comm) const = 0;
  /// Once MPI runs; throws as check_parent() does.
  virtual MpiComm parent_at(const void* mpi_comm) const = 0;
  virtual int rank(MpiComm comm) const = 0;
  virtual int size(MpiComm comm) const = 0;
  virtual int tag_upper_bound() const = 0;
  /// May buffers of messages lie on a GPU? Nothing where the library does not say so: an Open MPI that was built
  /// without CUDA denies it, and moves them well by a UCX that knows CUDA. After the start.
  virtual std::optional<bool> takes(GpuVendor vendor) const = 0;

  // New communicators return errors instead of aborting the job. Those still alive are freed when MPI ends.
  /// Collective. Calls `meanwhile` again and again, with the seconds that this process has run since the beginning;
  /// that may throw to give up, after timeout_s.
  virtual MpiComm dup(MpiComm comm, double timeout_s, const std::function<void(double waited_s)>& meanwhile) = 0;
  virtual MpiComm split(MpiComm comm, int color, int key) = 0;
  /// Collective over `ranks` of `comm` only; member k of the result is ranks[k]. MPI waits for all of them: with
  /// MPI_THREAD_MULTIPLE in a thread of its own, which is left there where a member never comes; without, here.
  virtual MpiMaking create_group(MpiComm comm, std::span<const int> ranks, int tag) = 0;
  virtual void free(MpiComm comm) = 0;
  /// Never frees it, not even when MPI ends: MPICH aborts in a free that meets a large message nobody has received.
  virtual void keep(MpiComm comm) = 0;

  /// Has a message come that no receive has met?
  virtual bool arrived(MpiComm comm, int peer, int tag) = 0;
  virtual bool arrived_from_any(MpiComm comm, int tag) = 0;
  virtual void barrier(MpiComm comm) = 0;
  virtual void run(const MpiCollective& call) = 0;  // blocking
  virtual std::unique_ptr<MpiRequests> requests() = 0;

 private:
  OwnProcess process_;
};

/// The MPI this process has loaded already, else the one that fits the launcher. `directories` are searched last.
/// Throws TransportError that says where it looked and what to install.
std::shared_ptr<MpiApi> load_mpi(std::span<const std::string> directories);

}  // namespace lanecast
