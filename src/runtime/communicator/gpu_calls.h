// SPDX-License-Identifier: Apache-2.0
// Calls on a GPU's memory: enqueued in the order of a stream, and looked after by whoever waits for them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/communicator/choosing.h"
#include "runtime/communicator/footing.h"
#include "runtime/communicator/gate.h"
#include "runtime/communicator/request.h"
#include "runtime/gpu/engine_calls.h"

namespace lanecast {

class BetweenHosts;
class BoundProgram;
class CarriedMessages;
class DeviceWork;
class GpuExecutor;
class LaunchCounts;
class LaunchedCalls;
class OrderedCall;
class OrderedCalls;
class ProgressRounds;
class Proxy;
class Work;
struct CallBetweenHosts;
namespace peers {
class SharedMemory;
class WindowMemory;
}  // namespace peers

/// All but finish() and what says so comes into the gate by itself, and refuses what that refuses. What happens on the
/// device is thrown by later calls and by synchronize().
class GpuCalls {
 public:
  struct Beside {
    OrderedCalls& calls;
    LaunchedCalls& launched;
    CarriedMessages& carried;
    ProgressRounds& rounds;
    Choosing& choosing;
  };
  GpuCalls(const Footing& footing, const Beside& beside);

  /// Opens the GPU of later calls; without it the first of them does. Collective. Throws UsageError.
  void open(int device);
  /// The same by whoever is in the gate.
  void open_within(int device);
  /// Null before; by whoever is in the gate.
  GpuExecutor* opened() const { return executor_.get(); }
  /// Its ordinal, once it is open.
  std::optional<int> device();
  /// Is it open, and are all ranks on one host?
  bool has_peers();
  /// Is it open? Then messages go.
  bool has_messages();
  /// Where messages to other hosts lie: "staged", on the host; "direct", on the GPU; empty: it is closed, or one host.
  std::string where_messages_lie();
  /// Of the GPUs of all ranks, by its driver's name; empty where it is not open, or there are several kinds.
  std::string kind();
  /// What would run, what else could, and why it does not. symmetric: on such memory, on one host; captured: by a
  /// graph. Throws UsageError where the GPU is not open.
  Explanation explain(const Call& call, bool symmetric, bool captured);

  /// Memory on this rank's GPU that the peers' GPUs read and write, of equal size on all ranks. Collective.
  std::shared_ptr<peers::SharedMemory> allocate_symmetric(int device, std::size_t bytes);
  /// Memory of this rank's GPU that peers may map from now on: where all ranks' buffers lie in such memory, wherever
  /// each has put them, calls copy nothing to and from staging. Not collective. False where it does not serve: before
  /// the GPU is open, among several hosts, and with too many of them.
  bool open_window(std::shared_ptr<peers::WindowMemory> memory);
  /// Maps what peers have opened, and lets go of what they have closed, as each call does; waits for nobody.
  void look_at_windows();
  /// How many calls have made use of it.
  std::uint64_t calls_by_windows();

  /// A composition, lowered for any number of calls that are enqueued, with buffers of the same kind. Waits for nobody,
  /// but that the first call on a GPU comes together with the other ranks. Throws what PersistentCall does.
  ComposedOnGpu compile(const ComposedCall& call, int device);
  /// See Communicator::enqueue().
  std::shared_ptr<DeviceWork> enqueue(const GpuRequest& request, const OnStream& where);

  /// Blocks until all that is enqueued has run.
  void synchronize(const Interrupt& interrupt = {});
  /// Blocks until done() or the first sign that it will not be.
  void wait_for(const std::function<bool()>& done, const Interrupt& interrupt);
  /// Throws what has gone wrong so far, each time; never blocks.
  void check();
  /// Until all calls on the GPU have run, and their messages are through, lest its peers lose them. What goes wrong
  /// meanwhile is said on standard error: no call hears it any more.
  void finish();
  /// What MPI cannot recall stays, for as long as the process runs.
  void keep_for_good() const;

  /// What the choice of its calls goes by.
  static Choosing::OnGpus on_gpus(const GpuExecutor& executor);

 private:
  using Lock = Gate::Lock;
  /// What moves the memory: fused kernels on peer memory, a program within one host, one with a proxy between hosts, or
  /// NCCL's collective.
  enum class GpuBackend : std::uint8_t { peers, program, proxied, nccl };
  /// Which of them a call takes, and how.
  struct Route;
  int rank() const;

  /// stream: of the call that needs it, if any.
  std::shared_ptr<GpuExecutor> made(int device, std::optional<void*> stream = {});
  /// Collective. Where it could be chosen.
  void look_for_nccl(GpuExecutor& executor);
  /// Once where messages lie on the host and a user may wonder.
  void say_why_staged(const BetweenHosts& between) const;
  GpuExecutor& open_for_call(int device, Lock& lock, std::optional<void*> stream = {});
  /// Throws UsageError for what no backend takes. Collective where NCCL is opened for it, or a trial settled.
  Route route_of(GpuExecutor& executor, const Call& call, const OnStream& where, Lock& lock);
  /// Of a call that no algorithm of plans is named for.
  Route route_within_host(GpuExecutor& executor, const Call& call, const OnStream& where, bool captured, Lock& lock);
  Route route_by_nccl(GpuExecutor& executor, const Call& call, bool captured) const;
  /// What NCCL cannot do of the call; empty: nothing.
  std::string not_nccls(const Call& call) const;
  /// The same here and now, whether calls try it, and in which order sums may be added.
  EngineCalls::Allowed allowed_to(GpuExecutor& executor, const Call& call, bool captured) const;
  void open_nccl(GpuExecutor& executor, void* stream, Lock& lock);
  /// Which of both ways was faster, on all ranks.
  Trials::Way settle(GpuExecutor& executor, const SizeClass& size, Lock& lock);
  /// Collective. Throws UsageError where the stream is captured.
  template <class Open>
  void take_memory(GpuExecutor& executor, const std::string& by, void* stream, Lock& lock, const Open& open);
  void open_staging(GpuExecutor& executor, void* stream, Lock& lock);
  void open_programs(GpuExecutor& executor, void* stream, Lock& lock);
  /// What only calls of this backend need. Collective.
  void open_for(GpuExecutor& executor, const Route& route, void* stream, Lock& lock);
  /// For calls between hosts on the stream. Where it captures for the first time, waits for the calls under way.
  void open_proxied(GpuExecutor& executor, void* stream, Lock& lock);
  /// Throws UsageError for buffers unlike those that the composition was compiled for.
  void require_as_compiled(GpuExecutor& executor, const ComposedOnGpu& call, const OnStream& where) const;
  /// Until what was enqueued has run; throws why it has not.
  void finish_kernels(const GpuExecutor& executor);
  /// Until messages between two ranks are through.
  void finish_carried();
  /// Until all that graphs replay has run, and its messages are through.
  void finish_launched();
  /// what: the other ranks have to come for; begun_s: how long ago the wait has begun. Throws to give up.
  void keep_waiting(const std::string& what, double begun_s);

  /// For traces with steps: the launches from now on are those of this call. says: what it is, and its bytes.
  template <class Says>
  void trace(const Says& says) {
    if (!ground_.options.trace_steps) return;
    const auto [what, bytes] = says();
    ground_.log.begin_on_gpu(what, bytes);
  }

  struct Begun;
  /// Has begin(executor, lock) give a call its turn, and enqueues what that has left.
  template <class Begin>
  std::shared_ptr<DeviceWork> enqueue_behind(const OnStream& where, const Begin& begin);
  std::shared_ptr<DeviceWork> enqueue_one(const Call& call, const OnStream& where);
  std::shared_ptr<DeviceWork> enqueue_one(const ComposedOnGpu& call, const OnStream& where);
  std::shared_ptr<DeviceWork> enqueue_one(Transfers transfers, const OnStream& where);
  /// Gives a call its turn on the stream. What a plan enqueues is left, for enqueue_rest().
  std::optional<CallBetweenHosts> enqueue_on(GpuExecutor& executor, const Call& call, const Route& route, void* on,
                                             Lock& lock);
  /// Outside the gate, after an error there.
  void fail_once(const std::exception& error);
  /// What takes memory of the GPU's: meanwhile the progress thread moves the calls before.
  void outside_gate(Lock& lock, const std::function<void()>& take);
  /// Gives a call between hosts its turn.
  /// Null where the program has counts of its own.
  std::shared_ptr<const LaunchCounts> counts_for(BetweenHosts& between, const BoundProgram& program, const Call& call,
                                                 Lock& lock);
  CallBetweenHosts prepare(BetweenHosts& between, const ComposedOnGpu& call, void* on, Lock& lock);
  /// Of no plan.
  void enqueue_whole(GpuExecutor& executor, const Call& call, bool in_place, const Route& route, void* on);
  /// The host's half of a call that has its turn.
  void look_after(std::shared_ptr<OrderedCall> on_gpu);
  /// The same between hosts, where the host enqueues the call.
  void look_after_proxied(std::shared_ptr<Proxy> proxy);
  /// On a stream, behind what another holds, if that is another. Outside the gate: where the driver has no room it
  /// blocks until the progress thread has moved the messages before.
  void enqueue_rest(GpuExecutor& executor, const CallBetweenHosts& call, void* behind, void* on);
  GpuExecutor& open_for_messages(Transfers transfers, const OnStream& where, Lock& lock);
  void enqueue_between_hosts(GpuExecutor& executor, Transfers transfers, void* on, Lock& lock);
  /// Lets the proxies of messages to other hosts know of them.
  void expect(BetweenHosts& between, Transfers transfers, void* on, Lock& lock);

  /// Those who have left when all that they had to do was done: what is at work here may still need only that.
  enum class Leavers : std::uint8_t { count, may_go };
  void wait_for(const std::function<bool()>& done, const Interrupt& interrupt, Leavers leavers);
  /// Has one of the peers gone? Throws where it has failed, or is_final says that nothing more can come of it.
  bool lost_peer(bool is_final, Leavers leavers = Leavers::count);
  /// Looks at what kernels have met and at the peers; throws to give up.
  void look();

  Ground& ground_;
  Gate& gate_;
  Failing& failing_;
  Waits& waits_;
  OrderedCalls& calls_;
  LaunchedCalls& launched_;
  CarriedMessages& carried_;
  ProgressRounds& rounds_;
  Choosing& choosing_;
  std::shared_ptr<GpuExecutor> executor_;  // null before the first call on a GPU
  std::shared_ptr<Work> last_;             // of calls by plans and by NCCL
  std::shared_ptr<Work> last_launched_;    // of calls by plans, once a graph has captured one
};

}  // namespace lanecast
