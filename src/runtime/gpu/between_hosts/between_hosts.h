// SPDX-License-Identifier: Apache-2.0
// Calls among the GPUs of several hosts: each is one launch of a program, beside which a proxy moves what goes to other
// hosts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peers/program_peers.h"
#include "runtime/bound/recent_calls.h"
#include "runtime/gpu/between_hosts/captured_calls.h"
#include "runtime/gpu/between_hosts/counts_pool.h"
#include "runtime/gpu/between_hosts/messages_between_hosts.h"
#include "runtime/gpu/between_hosts/proxy.h"
#include "runtime/gpu/enqueued_calls.h"
#include "runtime/gpu/open_gpu.h"
#include "runtime/request/call.h"
#include "runtime/request/composed_call.h"
#include "select/choose.h"
#include "topology/topology.h"

namespace lanecast {

class BetweenHosts {
 public:
  /// What it works on, which outlives it. hosts: of each rank.
  struct NetworkSurroundings {
    const OpenGpu& gpu;
    const Topology& topology;
    std::vector<std::string> hosts;
    EnqueuedCalls& enqueued;
  };
  /// among: the bootstrap of some ranks. Collective; throws on all ranks where it does on one.
  BetweenHosts(NetworkSurroundings around, const Bootstrap& all, const std::function<Bootstrap(const Ranks&)>& among,
               WhereMessagesLie where);
  /// The device has nothing to do. Graphs that are still there are told, and replay nothing from now on.
  ~BetweenHosts();
  BetweenHosts(const BetweenHosts&) = delete;
  BetweenHosts& operator=(const BetweenHosts&) = delete;

  /// The program of an equal call before; null where there is none.
  std::shared_ptr<const BoundProgram> find(const Call& call, bool in_place);
  /// Makes the call's program. Throws UsageError for what cannot be run so. One of own counts serves any that are no
  /// larger than its bound, see BoundedCall. Takes memory: the driver may wait for what the device does, and that for
  /// messages. So whoever moves these has to get his turns meanwhile.
  std::shared_ptr<const BoundProgram> bind(const Call& call, bool in_place, const Choice& choice);
  /// Any plan of this rank's, in the shape's chunks.
  std::shared_ptr<const BoundProgram> bind(Plan plan, Shape shape) {
    return bind(std::move(plan), std::move(shape), {});
  }
  /// Throws PlanError unless the programs of all ranks come to their ends. Asked of up to kProvenRanks, which takes a
  /// few milliseconds.
  void prove(const std::vector<Plan>& plans, const Shape& shape) const { prove(plans, shape, {}); }
  /// Of a vector of so many bytes, at least: so that its messages are no longer than their memory should be.
  static int least_chunks(std::size_t bytes);
  /// Of a rank: those of its host, where kernels take so many; else it alone.
  static Ranks neighbours_of(int rank, const std::vector<std::string>& hosts);
  /// A longer message among so many neighbours goes through a ring in several, in bytes.
  static std::size_t longest_in_ring(std::size_t neighbours);

  /// Of the calls from now on; equal on all ranks or not.
  void set_timeout(double timeout_s);
  /// The slowest link between hosts, equal on all ranks. From now on choose() may say something else.
  void network_is(const Link& link);

  /// A call, in two parts. The first gives it its turn.
  struct Prepared {
    CallBetweenHosts device;
    std::shared_ptr<Proxy> proxy;  // null where the stream captures the call: each replay comes with it
  };
  /// For calls of a program whose counts come with the launch.
  CountsPool& counts() { return counts_; }
  /// Has a launch of the program all that it takes, so that no driver is asked?
  bool has_room_for(const std::shared_ptr<const BoundProgram>& program, bool captured) const;
  /// Takes memory, as bind() does.
  void make_room_for(const std::shared_ptr<const BoundProgram>& program, bool captured);
  /// Once there is room.
  Prepared prepare(const ComposedOnGpu& call, Router& router, gpu::Stream stream, bool captured);
  /// The second enqueues the launch, in the order of the first parts.
  void enqueue(const CallBetweenHosts& call, gpu::Stream stream) const;

  /// Do any messages lie on the device?
  bool is_direct() const { return where_.any(); }
  /// Why not, where a user may wonder; else empty.
  const std::string& why_staged() const { return where_.why_staged; }
  /// Do ranks reach the memory of all others in their innermost domain of the topology, of several ranks?
  bool has_groups() const;
  /// Memory of messages on the device, of ProbeMemory::kBytes, while no call is under way.
  std::byte* message_memory() const { return memories_.back()->slots(/*on_host=*/false); }
  AnnouncedLaunches& launches() const { return *launches_; }
  MessagesBetweenHosts& messages() const { return *messages_; }
  CapturedCalls& captured() { return captured_; }
  std::optional<peers::PeerFault> fault() const { return own_->faults.met(); }
  /// Ends the waits of kernels.
  void poison() { own_->faults.poison(); }

 private:
  static constexpr std::size_t kPrograms = 256;
  /// What this rank makes by itself for the kernels.
  struct OwnPart {
    peers::Launches launches;
    peers::Faults faults;
    gpu::DeviceMemory control;
  };

  /// Counts that come with the launch, and bytes of all of them where all ranks know that.
  struct CountsBound {
    CountsKnown known = CountsKnown::before;
    std::size_t all = 0;
  };

  Plan make(const Collective& collective, int rank, const std::string& algorithm) const;
  void prove(const std::vector<Plan>& plans, const Shape& shape, const CountsBound& counts) const;
  std::shared_ptr<const BoundProgram> bind(Plan plan, Shape shape, const CountsBound& counts);
  /// A collective's, proven where there are few ranks.
  std::shared_ptr<const BoundProgram> bind(const Collective& collective, Shape shape, const std::string& algorithm,
                                           const CountsBound& counts);
  std::shared_ptr<const BoundProgram> bind_counted(const BoundedCall& call, const Collective& collective,
                                                   const Choice& choice);
  void raise_fault() const;
  void end_replays();
  Ranks on_host_of(int rank) const { return neighbours_of(rank, on_.hosts); }
  /// On all ranks the same.
  Slicing slicing_for(const Plan& plan, const Shape& shape, const CountsBound& counts) const;
  ProgramShape shaped(const Plan& plan, const Shape& shape, const CountsBound& counts) const;

  NetworkSurroundings on_;
  int rank_;
  WhereMessagesLie where_;
  std::unique_ptr<OwnPart> own_;
  std::unique_ptr<peers::ProgramPeers> peers_;
  std::unique_ptr<MessagesBetweenHosts> messages_;
  int most_lanes_, most_adding_;  // lanes of a call, and of one that may add
  std::size_t window_ = 0;        // see Proxy
  // The last one holds the largest program so far. Earlier ones stay: the thread that ends the last call with one makes
  // no call of the driver.
  std::vector<std::shared_ptr<NetworkMemory>> memories_;
  std::shared_ptr<AnnouncedLaunches> launches_;
  CapturedCalls captured_;
  CountsPool counts_;
  RecentCalls<std::shared_ptr<const BoundProgram>> bound_{kPrograms};
};

}  // namespace lanecast
