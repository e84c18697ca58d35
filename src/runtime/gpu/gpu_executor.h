// SPDX-License-Identifier: Apache-2.0
// What a communicator has on its rank's GPU: kernels, peer memory, and the calls that were made with them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/gpu/between_hosts/between_hosts.h"
#include "runtime/gpu/enqueued_calls.h"
#include "runtime/gpu/nccl_calls.h"
#include "runtime/gpu/opening.h"
#include "runtime/gpu/own_memory.h"
#include "runtime/gpu/within_host.h"
#include "topology/topology.h"

namespace lanecast {

class GpuExecutor {
 public:
  /// Collective over all ranks. Throws on all where it does on one.
  GpuExecutor(const Bootstrap& bootstrap, const Topology& topology, const GpuOptions& options,
              const GpuNeighbours& neighbours);
  /// Waits for what is enqueued: it writes memory that goes now.
  ~GpuExecutor();
  GpuExecutor(const GpuExecutor&) = delete;
  GpuExecutor& operator=(const GpuExecutor&) = delete;

  const gpu::Device& device() const { return *gpu_.device; }
  /// Whose memory calls need.
  OwnGpu own() const { return {*gpu_.device, rank_}; }
  /// Of the GPUs of all ranks; empty where they are of several kinds.
  const std::string& kind_of_gpu() const { return gpu_.kind; }

  /// Null where the ranks are on several hosts.
  WithinHost* within_host() const { return within_host_.get(); }
  /// Null where all ranks are on one host.
  BetweenHosts* between_hosts() const { return between_hosts_.get(); }
  NcclCalls& nccl() { return nccl_; }
  /// Calls of one communicator run in the order in which they were made, whatever their streams and whoever runs them.
  OrderOfCalls& order_of_calls() { return enqueued_.order; }
  /// Have the calls that were made run? What is replayed from a graph does not count.
  bool idle() const;

  /// How long the kernels of the calls from now on wait for a peer. The host's half of a call has a deadline of its
  /// own.
  void set_timeout(double timeout_s);
  /// Choose by what was measured, where ranks of one host choose by that. Equal on all ranks.
  void choose_by(const Models& models);

  /// Until all that the device has to do is done, also what graphs replay.
  void wait_for_device() const;
  /// Throws TimeoutError or MismatchError for what a kernel has met while it waited, UsageError for launches at once.
  void raise_fault() const;
  /// Ends the waits of kernels.
  void poison();
  /// The same on the GPUs of this host's ranks. Once these can know why: all that is said here is that it is so.
  void poison_peers();

 private:
  int rank_;
  OpenGpu gpu_;
  EnqueuedCalls enqueued_;
  std::unique_ptr<WithinHost> within_host_;
  std::unique_ptr<BetweenHosts> between_hosts_;
  NcclCalls nccl_;
};

}  // namespace lanecast
