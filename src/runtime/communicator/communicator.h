// SPDX-License-Identifier: Apache-2.0
// The ranks that call collectives together: what users hold.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/running_time.h"
#include "runtime/agree/bootstrap_over.h"
#include "runtime/agree/call_agreement.h"
#include "runtime/communicator/choosing.h"
#include "runtime/communicator/failing.h"
#include "runtime/communicator/gpu_way.h"
#include "runtime/host/batch.h"
#include "runtime/host/plan_cache.h"
#include "runtime/request/call.h"
#include "runtime/request/options.h"
#include "runtime/watch/call_log.h"
#include "runtime/watch/patience.h"
#include "runtime/watch/surprises.h"
#include "runtime/wires/surroundings.h"

namespace lanecast {

struct ComposedCall;
struct ComposedOnGpu;
struct StagedCall;
class StagedPlan;
class DeviceWork;
class GpuSide;
class Shown;
namespace ipc {
class SharedMemory;
class WindowMemory;
}  // namespace ipc

class Communicator {
 public:
  /// Collective. `progress` may serve other communicators as well.
  Communicator(Surroundings surroundings, CommunicatorOptions options, std::shared_ptr<ProgressThread> progress);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return ground_.around.bootstrap.rank; }
  int size() const { return ground_.around.bootstrap.size; }
  const Topology& topology() const { return ground_.topology; }
  std::string transports() const { return ground_.router->str(); }
  std::string transport_to(int peer) const;
  int hosts() const { return ground_.hosts(); }
  const CommunicatorOptions& options() const { return ground_.options; }

  /// Blocks until this rank's buffers may be used again. Throws UsageError before any data moves; after any other error
  /// the communicator has failed and every further call says so.
  void run(const Call& call, const Interrupt& interrupt = {});

  /// The same, and other threads may call this communicator meanwhile: their calls come in between, and neither ends
  /// by waiting for the other's ranks. `timeout_s`: of this call; unset: the communicator's.
  void run_beside_others(const Call& call, std::optional<double> timeout_s, const Interrupt& interrupt = {});
  void barrier_beside_others(std::optional<double> timeout_s, const Interrupt& interrupt = {});

  /// Returns at once, but where a library makes groups for the call, which all their members have to come to. Calls on
  /// one communicator run in the order in which they were made.
  std::shared_ptr<Work> start(const Call& call, const Interrupt& interrupt = {});
  static void wait(Work& work, const Interrupt& interrupt = {});
  /// What keeps a started call, for people: the ranks that it waits for, or the call before it; empty once it is done.
  std::string waits_for(const Work& work);

  /// Sends and receives posted together, in which only this rank and its peers take part: none waits for another, or
  /// for the collectives started before. Blocks until their buffers may be used again, or returns at once. Errors as
  /// above.
  void run(std::span<const Transfer> transfers, const Interrupt& interrupt = {});
  std::shared_ptr<Work> start(std::span<const Transfer> transfers);

  /// Has a message for a receive from `peer` with this tag come? Never blocks.
  bool arrived(int peer, int tag);

  /// A call on a GPU's memory, in the order of a stream of the caller's (a CUstream); returns at once. `device`:
  /// ordinal, the same for all calls. The first call comes together with the other ranks. Throws UsageError; what
  /// happens on the device is thrown by later calls and by synchronize().
  void enqueue(const Call& call, int device, void* stream);
  /// The same on a stream of the communicator's own, behind what the caller's holds now.
  std::shared_ptr<DeviceWork> enqueue_async(const Call& call, int device, void* stream);
  /// A composition of a GPU's memory, lowered for any number of calls that are enqueued as above, with buffers of the
  /// same kind. Waits for nobody, but that the first call on a GPU comes together with the other ranks. Throws what
  /// PersistentCall does.
  std::shared_ptr<StagedPlan> compile(const ComposedCall& call, int device);
  void enqueue(const ComposedOnGpu& call, int device, void* stream);
  std::shared_ptr<DeviceWork> enqueue_async(const ComposedOnGpu& call, int device, void* stream);
  /// Messages of a GPU's memory among the ranks of one host, all at once, in the order of a stream; this rank may be a
  /// peer of its own. Only the two ranks of a message take part. `device` and errors as above.
  void enqueue(std::span<const Transfer> transfers, int device, void* stream);
  /// The same beside the caller's stream, behind what it holds now.
  std::shared_ptr<DeviceWork> enqueue_async(std::span<const Transfer> transfers, int device, void* stream);
  /// Is the GPU open, and are all ranks on one host? Then such messages go.
  bool has_peer_memory();
  /// Where messages to other hosts lie: "staged", on the host; "direct", on the GPU; empty: it is closed, or one host.
  std::string gpu_messages();
  /// Memory on this rank's GPU that the peers' GPUs read and write, of equal size on all ranks. Collective.
  std::shared_ptr<ipc::SharedMemory> allocate_symmetric(int device, std::size_t bytes);
  /// Memory of this rank's GPU that peers may map from now on: where all ranks' buffers lie in such memory, wherever
  /// each has put them, calls copy nothing to and from staging. Not collective. False where it does not serve: before
  /// the GPU is open, among several hosts, and with too many of them.
  bool open_window(std::shared_ptr<ipc::WindowMemory> memory);
  /// How many calls have made use of it.
  std::uint64_t calls_by_windows();
  /// Opens the GPU of later calls; without it the first of them does. Collective. Throws UsageError.
  void use_gpu(int device);
  /// Blocks until all that is enqueued has run.
  void synchronize(const Interrupt& interrupt = {});
  /// Throws what has gone wrong so far, each time; never blocks.
  void check_gpu();

  /// Collective: done when every rank has come. A collective like others, also in its order among them.
  void barrier(const Interrupt& interrupt = {});
  std::shared_ptr<Work> start_barrier(const Interrupt& interrupt = {});

  /// Ranks that give the same color become a communicator, ordered by key, then by rank. Collective; a negative color
  /// takes no part and gets null.
  std::unique_ptr<Communicator> split(int color, int key, const Interrupt& interrupt = {});

  /// Fails the communicator, so that its peers need not wait for a rank that will make no more calls. A blocking call
  /// that waits in another thread ends with a TransportError.
  void abort(const std::string& why) { failing_.abort(why); }

  /// Seconds without progress after which calls made from now on give up; this rank's own affair. Throws UsageError.
  void set_timeout(double timeout_s);

  /// Writes what this rank has called, and where it stands, into `directory`. Any time, also in a call of this thread.
  void write_trace(const std::string& directory) const { ground_.write_trace(directory); }

  /// What would run: algorithm and chunks after all defaults.
  Choice chosen(const Call& call) const { return choosing_.chosen(call); }
  /// The same, what else could run, and why it does not. Of calls on the CPU's memory: docs/gpu.md says what GPUs take.
  Explanation explain(const Call& call) const { return choosing_.explain(call); }
  /// The same of a call on GPUs. symmetric: on such memory, on one host. Throws UsageError where the GPU is not open.
  Explanation explain_on_gpu(const Call& call, bool symmetric);
  /// Of the GPUs of all ranks, by its driver's name; empty where it is not open, or there are several kinds.
  std::string kind_of_gpu();

  /// From now on every rank chooses by rank 0's models, unless they are empty; those of others are not looked at.
  /// Collective, while no started call is under way and no other thread asks what would run. A `refusal` of rank 0
  /// ("profile p.json: …") is thrown on all ranks.
  void adopt(const Models& models, const std::string& refusal, const Interrupt& interrupt = {});
  const Models& models() const { return choosing_.models(); }
  /// What was chosen here and is slower than predicted; outlives the communicator. A prediction that rests on assumed
  /// links alone is none, nor is that of an algorithm or a number of chunks that the user has named.
  std::shared_ptr<const Surprises> surprises() const { return surprises_; }

 private:
  friend class DeviceWork;
  friend class PersistentCall;
  friend class ProgressThread;
  struct Started;
  using Lock = Gate::Lock;
  /// Over the transports: collective, and beside no other messages.
  Bootstrap among_all(const std::string& what);
  /// Of the ranks of `gathering`, which needs no more than them and what they do.
  Bootstrap among(Gathering gathering) const;
  /// stream: of the call that needs it, if any.
  std::shared_ptr<GpuSide> open_gpu(int device, std::optional<void*> stream = {});
  /// Once where messages lie on the host and a user may wonder.
  void say_why_staged(const GpuSide& side) const;
  GpuSide& gpu(int device, Lock& lock, std::optional<void*> stream = {});
  /// Throws UsageError for what can go no way.
  GpuWay way_of(GpuSide& side, const Call& call, int device, void* stream) const;
  /// What NCCL cannot do of the call; empty: nothing.
  std::string not_native(const Call& call) const;
  void open_native(GpuSide& side, Lock& lock);
  void open_staging(GpuSide& side, void* stream, Lock& lock);
  /// What only calls of this way need. Collective.
  void open_for(GpuSide& side, const Call& call, GpuWay way, void* stream, Lock& lock);
  /// Throws UsageError where no message through the host's memory can be enqueued on the stream.
  void require_messages(GpuSide& side, void* stream) const;
  /// begun_s: how long ago the wait has begun. Throws to give up.
  void keep_waiting_for_nccl(double begun_s);
  struct Begun;
  /// Has begin(side, lock) give a call its turn, and enqueues what that has left.
  template <class Begin>
  std::shared_ptr<GpuSide> enqueue_behind(const OnStream& where, const Begin& begin);
  std::shared_ptr<GpuSide> enqueue_call(const OnStream& where, const Call& call);
  std::shared_ptr<GpuSide> enqueue_call(const OnStream& where, const ComposedOnGpu& call);
  /// Of the call that was enqueued apart just now.
  std::shared_ptr<DeviceWork> work_on(std::shared_ptr<GpuSide> side);
  /// Throws UsageError for buffers unlike those that the composition was compiled for.
  void require_as_compiled(GpuSide& side, const ComposedOnGpu& call, const OnStream& where) const;
  /// Gives a call its turn on the stream. What a plan enqueues is left, for enqueue_rest().
  std::optional<StagedCall> enqueue_on(GpuSide& side, const Call& call, GpuWay way, void* on);
  /// The host's half of a call that has its turn.
  void look_after(std::shared_ptr<OrderedCall> on_gpu);
  /// On a stream, behind what another holds, if that is another. Outside the gate: where the driver has no room it
  /// blocks until the progress thread has moved the messages before.
  void enqueue_rest(GpuSide& side, const StagedCall& call, void* behind, void* on);
  GpuSide& gpu_for(std::span<const Transfer> transfers, int device, void* stream, Lock& lock);
  /// Until the messages of all calls on the GPU are through, lest its peers lose them.
  void finish_on_gpu();
  /// Blocks until done() or the first sign that it will not be.
  void wait_for_gpu(const std::function<bool()>& done, const Interrupt& interrupt);
  /// Has one of the peers gone? Throws where it has failed, or is_final says that nothing more can come of it.
  bool lost_peer(bool is_final);
  /// Looks at what kernels have met and at the peers; throws to give up.
  void look_at_gpu();
  std::shared_ptr<Started> bind(const Call& call);
  std::shared_ptr<Started> bind(const ComposedCall& call);
  /// In the caller's thread, where groups are opened in the order of the program: two communicators that opened theirs
  /// in a thread of ours might do so in another order than on the other ranks.
  void open_groups(Started& call, Lock& lock, const Interrupt& interrupt);
  void start(const std::shared_ptr<Started>& call, const Interrupt& interrupt);
  void run(const std::shared_ptr<Started>& call, const Interrupt& interrupt);
  std::shared_ptr<Execution> prepare(Call call);
  /// In the caller's thread, where no other call is under way.
  void run_now(const std::shared_ptr<Execution>& call, const void* in, void* out, const Interrupt& interrupt);
  void begin(OrderedCall& call, const std::byte* in, std::byte* out);
  /// After its last step.
  void end(Execution& call);
  bool advance(UnderWay& call);
  /// Runs a part of a call. Where a transport cannot go on, a peer often knows the reason.
  template <class Part>
  void with_reasons(const UnderWay& call, const Part& part);
  void look_for_reasons(const UnderWay& call);
  /// Runs a part of a call, whose error is the communicator's. The call's memory is kept then, where its peers or MPI
  /// may still reach it.
  template <class Part>
  void or_fail(const std::shared_ptr<Execution>& call, const Part& part);
  /// Waits for all started calls, without the lock.
  void drain(Lock& lock, const Interrupt& interrupt = {});
  void drive(UnderWay& call, const Interrupt& interrupt);
  /// For a blocking call that had to be started: the caller's buffers are not touched after an interrupt.
  void wait_or_fail(Work& work, const Interrupt& interrupt);
  void check_all(std::span<const Transfer> transfers) const;
  void check_timeout(double timeout_s) const;
  bool advance_batches();
  void look_after_batches();
  Call barrier_call();
  std::unique_ptr<Communicator> make_child(int color, int key, const Interrupt& interrupt);
  /// Starts to be moved when those before it have finished.
  void queue(const std::shared_ptr<Started>& call);
  bool advance_started();
  /// Moves what is started, in the caller's thread, until `work` is done; throws the call's error.
  void advance_until_done(Work& work, const Interrupt& interrupt);
  /// After an exception of an interrupt in a wait for `work`: the communicator fails, unless that is done.
  void fail_if_interrupted(Work& work, const std::exception& error);
  bool has_started();
  /// Lets the progress thread move what was started.
  void hand_to_thread();
  /// Nobody moves the started calls any more: they fail, so that no wait for them lasts.
  void give_up_started();

  /// blocked: is in this call until it ends, and keeps other threads from calling meanwhile.
  enum class Caller : std::uint8_t { blocked, free };
  /// Looks at the user's wishes, the peers and the deadline, at most every few milliseconds; throws to give up.
  void look_around(const UnderWay& call, const Deadline& deadline, const Interrupt& interrupt, Caller caller);
  /// The same without the user, and now.
  void look_at(const UnderWay& call, const Deadline& deadline, Caller caller);
  [[noreturn]] void give_up(const UnderWay& call, int peer, const Loss& loss);
  std::string describe_wait(const UnderWay& call, int peer) const;
  /// After a failure: goes on telling those peers that have not taken it yet, for as long as they would wait.
  void tell_by_and_by();
  void end_started(const std::exception_ptr& error);
  /// In a forked process: what is shared with peers, or waits for a thread that has no copy here, stays untouched.
  void leave_to_parent();

  Ground ground_;
  Gate gate_;
  Failing failing_;
  std::shared_ptr<Surprises> surprises_ = std::make_shared<Surprises>();
  CallAgreement agreement_;
  Choosing choosing_;
  std::atomic<bool> is_moved_ = false;  // the progress thread looks for started calls
  std::uint64_t splits_ = 0;

  std::unique_ptr<PlanCache> plans_;
  double timeout_s_;  // of the next call
  std::uint64_t calls_ = 0;
  std::vector<std::shared_ptr<Started>> started_;  // the first is under way; a deque would allocate now and then
  std::vector<std::unique_ptr<Batch>> batches_;    // started; some may be done
  std::vector<std::byte> tokens_;                  // of barriers
  std::chrono::steady_clock::time_point last_look_, last_batch_look_;
  RunningTime ran_;                    // by the looks of all waits
  std::optional<Deadline> telling_;    // of peers that are to hear of a failure
  std::shared_ptr<GpuSide> gpu_;       // null before the first call on a GPU
  std::shared_ptr<Work> last_on_gpu_;  // of calls by plans and by NCCL
};

template <class Part>
void Communicator::with_reasons(const UnderWay& call, const Part& part) {
  try {
    part();
  } catch (const StepMismatchError& error) {  // a transport's, which knows the message and not the call
    look_for_reasons(call);
    if (call.title().empty()) throw;
    throw MismatchError(std::string(error.what()) + "; found in call " + std::to_string(calls_) + " of rank " +
                        std::to_string(rank()) +
                        (error.same_call ? " and of rank " + std::to_string(error.peer) : std::string()) + ", " +
                        std::string(call.title()));
  } catch (const TransportError&) {
    look_for_reasons(call);
    throw;
  }
}

}  // namespace lanecast
