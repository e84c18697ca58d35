// SPDX-License-Identifier: Apache-2.0
// Calls on GPUs by plans: what goes to ranks of other hosts is staged for the transport, chunk by chunk, and what stays
// in a host goes by peer memory.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/bound/recent_calls.h"
#include "runtime/gpu/between_hosts/host_groups.h"
#include "runtime/gpu/between_hosts/network_proxy.h"
#include "runtime/request/call.h"
#include "select/choose.h"

namespace lanecast {

/// A call with its turn among the others.
struct CallBetweenHosts {
  std::shared_ptr<const DevicePlan> plan;
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t first_channel = 0;  // of chunk 0
};

class BetweenHosts {
 public:
  /// peers: this rank's, of the topology's innermost domains; null where those are not to be used. Where it throws,
  /// peers are left to the caller: they go together with the others'.
  BetweenHosts(OpenGpu gpu, const Topology& topology, int rank, std::unique_ptr<HostGroups>&& peers,
               WhereMessagesLie where);

  /// Memory for the messages, which the first plan takes otherwise.
  void open_channels();

  /// The plan of an equal call before; else that of what choose() says, in as many chunks or more, where a chunk's
  /// messages would not fit. Throws UsageError for what cannot be run so.
  /// Own counts are cut pair by pair, into as many pieces as both ranks can tell.
  std::shared_ptr<const DevicePlan> bind(const Call& call, bool in_place, const std::function<Choice()>& choose);
  /// Any plan whose groups are this communicator's, in the shape's chunks, which have to fit.
  std::shared_ptr<DevicePlan> stage(Plan plan, Shape shape);
  /// Of the calls from now on; equal on all ranks or not.
  void set_timeout(double timeout_s);
  /// From now on choose() may say something else.
  void forget_plans() { bound_.clear(); }

  /// Calls take the channels in the order in which they begin, and are enqueued in that order.
  CallBetweenHosts begin(std::shared_ptr<const DevicePlan> plan, const void* in, void* out);
  /// Its host's half, to be started when the calls before it have finished.
  NetworkProxy::HostHalf host_half(const CallBetweenHosts& call) const;
  /// Enqueues all of the device's work, behind what the stream holds, and what it holds later behind that.
  void enqueue(const CallBetweenHosts& call, gpu::Stream stream);
  static std::uint16_t signature(const DevicePlan& plan);

  /// Do any messages lie on the device?
  bool is_direct() const { return where_.any(); }
  /// Why not, where a user may wonder; else empty.
  const std::string& why_staged() const { return where_.why_staged; }
  /// Of a call's group steps among peers.
  bool has_groups() const { return peers_ != nullptr; }
  /// Memory of a channel's messages on the device; with open_channels(), and while no call is under way.
  std::byte* message_memory() { return (*channels_)[0].messages(/*on_device=*/true); }
  /// Of enqueuing a kernel and a copy, by turns as a chunk has them, each.
  double driver_call_s();
  /// peer: as a rank; −1 for this rank's own host.
  std::optional<peers::PeerFault> fault() const;
  void poison();

 private:
  static constexpr std::size_t kPlans = 64;

  std::shared_ptr<const DevicePlan> bind_own_counts(const Call& call, const Collective& collective,
                                                    const std::string& algorithm);
  /// Throws UsageError where its groups are not this communicator's.
  Plan make(const Collective& collective, int rank, const std::string& algorithm) const;
  /// But for what a call and its plan say.
  gpu::Handshake handshake() const;

  OpenGpu gpu_;
  const Topology& topology_;
  int rank_;
  peers::Launches launches_;
  peers::Faults faults_;
  gpu::DeviceMemory control_;
  gpu::OwnedEvent begun_;
  std::unique_ptr<HostGroups> peers_;
  const WhereMessagesLie where_;
  std::shared_ptr<ChunkChannels> channels_;  // null before the first plan
  std::uint64_t next_channel_ = 0;
  RecentCalls<std::shared_ptr<const DevicePlan>> bound_{kPlans};
};

}  // namespace lanecast
