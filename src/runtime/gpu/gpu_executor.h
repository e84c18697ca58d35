// SPDX-License-Identifier: Apache-2.0
// What a communicator has on its rank's GPU: kernels, peer memory, and the calls that were made with them.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/gpu/between_hosts/between_hosts.h"
#include "runtime/gpu/bound_program.h"
#include "runtime/gpu/in_host_call.h"
#include "runtime/gpu/nccl_calls.h"
#include "runtime/gpu/opening.h"
#include "runtime/gpu/order_of_calls.h"
#include "runtime/gpu/order_of_messages.h"
#include "runtime/gpu/reachable_buffers.h"
#include "runtime/request/call.h"
#include "runtime/request/transfer.h"
#include "select/explain.h"
#include "select/peer_lines.h"
#include "topology/topology.h"

namespace lanecast {

/// The device of memory of which the caller does not say it.
constexpr int kUnknownDevice = -1;

class GpuExecutor {
 public:
  /// Collective over all ranks. Throws on all where it does on one.
  GpuExecutor(const Bootstrap& bootstrap, const Topology& topology, const GpuOptions& options,
              const GpuNeighbours& neighbours);
  /// Waits for what is enqueued: it writes memory that goes now.
  ~GpuExecutor();
  GpuExecutor(const GpuExecutor&) = delete;
  GpuExecutor& operator=(const GpuExecutor&) = delete;

  int device() const { return device_->ordinal(); }
  /// Are all ranks on one host, and reach each other's memory?
  bool has_peers() const { return peers_ != nullptr; }

  /// How long the kernels of the calls from now on wait for a peer. The host's half of a call has a deadline of its
  /// own.
  void set_timeout(double timeout_s);

  /// Calls of one communicator run in the order in which they were made, whatever their streams. By peer memory, among
  /// the ranks of one host:
  void enqueue(const Call& call, bool in_place, std::optional<PeerEngine> pinned, gpu::Stream stream);
  /// Among several hosts, in two parts. The first gives the call its turn; throws UsageError for what cannot be run.
  struct Prepared {
    CallBetweenHosts device;
    std::shared_ptr<Proxy> proxy;
  };
  Prepared prepare(const Call& call, bool in_place, const std::function<Choice()>& choose, Router& router);
  Prepared prepare(std::shared_ptr<const BoundProgram> program, const void* in, void* out, Router& router);
  /// The second enqueues the launch, in the order of the first parts.
  void enqueue(const CallBetweenHosts& call, gpu::Stream stream);
  /// By the plan of an algorithm, as a program among the ranks of one host. choose: asked once for equal calls. The
  /// call's chunks are those of a lane; 0: as many as serve speed. Needs open_programs(), which is collective. Throws
  /// UsageError for a plan that is none for programs.
  void enqueue(const Call& call, bool in_place, const std::function<Choice()>& choose, gpu::Stream stream);
  /// A composition's, likewise.
  void enqueue(const std::shared_ptr<const BoundProgram>& program, const void* in, void* out, gpu::Stream stream);
  void open_programs(const Bootstrap& bootstrap) { peers_->open_programs(bootstrap); }
  bool has_programs() const { return peers_->has_programs(); }
  std::shared_ptr<const BoundProgram> bind_program(Plan plan, Shape shape, Slicing slicing);
  /// How programs of these plans, which are all ranks', cut their parts. chunks: of a lane; 0: as many as serve speed.
  Slicing slicing_of(const std::vector<Plan>& plans, const Shape& shape, int chunks) const;

  /// By NCCL's own collective: returns what looks after it. open_native() has to go before.
  std::shared_ptr<NativeRun> enqueue_native(const Call& call, bool in_place, Router& router, gpu::Stream stream);
  bool has_native() const { return native_ != nullptr; }
  /// Collective. Throws UsageError on all ranks where one has no usable NCCL.
  void open_native(const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
                   const std::function<void(double)>& keep_waiting);
  /// Collective, on one host. Calls by copy engines need it.
  void open_staging(const Bootstrap& bootstrap) { peers_->open_staging(bootstrap); }
  bool has_staging() const { return peers_->has_staging(); }

  /// Choose engines by what was measured, where that was among as many ranks with GPUs of this kind. Equal on all
  /// ranks. Throws UsageError where the user has named what was measured on others.
  void choose_by(const std::vector<PeerFits>& measured);
  /// Of the GPUs of all ranks; empty where they are of several kinds.
  const std::string& kind_of_gpu() const { return gpu_.kind; }
  Explanation explain(const Call& call, bool symmetric, std::string_view pinned) const;
  /// Messages with other ranks of one host, all at once, and to this one itself. They come after what `stream` holds
  /// and after earlier messages between the same two ranks in the same direction; no other call waits for them. Throws
  /// UsageError before anything is enqueued.
  void enqueue(std::span<const Transfer> transfers, gpu::Stream stream);
  const gpu::Device& opened() const { return *device_; }
  /// Null where all ranks are on one host.
  BetweenHosts* between_hosts() const { return between_hosts_.get(); }
  /// Collective, on one host. Memory in which the peers read and write: calls on it need no copy to and from staging.
  std::shared_ptr<peers::SharedMemory> allocate_symmetric(const Bootstrap& bootstrap, std::size_t bytes) {
    return reachable_buffers_->allocate(bootstrap, bytes);
  }
  /// Calls on the memory need no such copies, either, where the other ranks' buffers lie in memory of that kind, too.
  /// This rank's own affair. False where it cannot be: among several hosts, say.
  bool open_window(std::shared_ptr<peers::WindowMemory> memory) {
    return reachable_buffers_ && reachable_buffers_->open_window(std::move(memory));
  }
  /// How many calls have made use of it.
  std::uint64_t calls_by_windows() const { return reachable_buffers_ ? reachable_buffers_->calls_by_windows() : 0; }

  OrderOfCalls& order_of_calls() { return order_of_calls_; }
  /// For messages beside the caller's stream, which wait for no other calls.
  gpu::Stream own_stream(std::span<const Transfer> transfers) { return order_of_messages_.stream(transfers); }
  /// Throws UsageError for what does not lie on this rank's GPU; costs a question to the driver.
  void require_own(const void* memory, const char* argument) const;
  /// The same of memory of which nobody says where it lies, and for such as begins within an element.
  void require_usable(const void* memory, const char* argument, DType dtype, int device) const;
  /// Have the calls that were made run? What is replayed from a graph does not count.
  bool idle() const { return order_of_calls_.idle() && messages_idle(); }

  /// Throws TimeoutError or MismatchError for what a kernel has met while it waited.
  void raise_fault() const;
  /// Ends the waits of kernels.
  void poison();
  /// The same on the GPUs of this host's ranks. Once these can know why: their hosts find nothing else that says so.
  void poison_peers();
  /// Ends what NCCL does here. Takes a while: its threads and kernels end before it returns.
  void abort_native();

 private:
  static constexpr std::size_t kCalls = 64, kPrograms = 256;

  PeerTraffic traffic_of(const Call& call, bool symmetric) const;
  /// Equal on all ranks. Throws UsageError where the call is not for the pinned one.
  PeerEngine engine_for(const Call& call, const InHostBuffers& buffers, std::optional<PeerEngine> pinned) const;
  /// Would the direct engine serve the call as well as this one, which is chosen for plain memory?
  bool offers(const Call& call, const InHostBuffers& buffers, PeerEngine engine) const;
  InHostCall& bound(const Call& call, bool in_place, PeerEngine engine);
  bool messages_idle() const;
  void keep(const std::shared_ptr<const BoundProgram>& program, bool captured);
  std::shared_ptr<const BoundProgram> named_program(const Call& call, bool in_place,
                                                    const std::function<Choice()>& choose);

  int rank_;
  const Topology& topology_;
  OpenGpu gpu_;
  std::shared_ptr<gpu::Device> device_;
  PeerLines lines_;
  std::unique_ptr<peers::PeerGroup> peers_;              // all ranks; null where they are on several hosts
  std::unique_ptr<ReachableBuffers> reachable_buffers_;  // of the same
  std::unique_ptr<BetweenHosts> between_hosts_;
  std::shared_ptr<NativeCalls> native_;  // null before the first call by NCCL
  OrderOfCalls order_of_calls_;
  OrderOfMessages order_of_messages_;
  RecentCalls<InHostCall> calls_{kCalls};
  RecentCalls<std::shared_ptr<const BoundProgram>> named_programs_{kPrograms};
  std::map<std::uint16_t, std::string> texts_;  // of signatures
  std::map<std::uint16_t, std::weak_ptr<const BoundProgram>> programs_;
  std::set<std::shared_ptr<const BoundProgram>> running_;   // perhaps: they stay on the device until they have
  std::set<std::shared_ptr<const BoundProgram>> captured_;  // by graphs, replayed for as long as this lives
};

}  // namespace lanecast
