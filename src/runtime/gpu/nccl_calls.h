// SPDX-License-Identifier: Apache-2.0
// Calls on GPUs that NCCL runs as a whole: enqueued on the caller's stream between two marks in host memory, by which
// the thread that looks after calls sees whether each has begun and ended, and makes no call of the GPU's driver.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu/memory.h"
#include "peers/nccl/communicator.h"
#include "peers/peer_group.h"
#include "runtime/agree/ordered_call.h"
#include "runtime/bound/recent_calls.h"
#include "runtime/bound/signature.h"
#include "runtime/gpu/enqueued_calls.h"
#include "runtime/gpu/open_gpu.h"
#include "runtime/request/call.h"
#include "runtime/wires/router.h"
#include "topology/topology.h"

namespace lanecast {

/// What is known of a call that a library runs as a whole.
struct DescribedCall {
  Plan plan;
  Signature signature;
  CallRecord record;
};

/// NCCL among the ranks, with the marks of its calls.
class MarkedNccl {
 public:
  /// Collective. keep_waiting: asked while NCCL waits for other ranks, with the seconds since; throws to give up.
  MarkedNccl(const OpenGpu& gpu, const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
             const std::function<void(double)>& keep_waiting);

  /// Between marks; returns its number.
  std::uint32_t enqueue(const Call& call, gpu::Stream stream);
  void capture(const Call& call, gpu::Stream stream) const;
  bool has_begun(std::uint32_t number) const { return reached(0, number); }
  bool has_ended(std::uint32_t number) const { return reached(1, number); }
  /// Throws what NCCL has met.
  void check() const { nccl_.check(); }
  void abort() { nccl_.abort(); }

 private:
  static constexpr std::size_t kApart = 128;  // bytes between the marks

  bool reached(std::size_t mark, std::uint32_t number) const;
  void mark(std::size_t which, gpu::Stream stream) const;

  std::shared_ptr<gpu::Device> device_;
  gpu::PinnedMemory marks_;  // the number of the latest call that has begun, and of that which has ended
  std::uint32_t calls_ = 0;
  nccl::NcclCommunicator nccl_;
};

/// A call of NCCL's, as it is looked after.
class NcclRun final : public OrderedCall {
 public:
  NcclRun(std::shared_ptr<const DescribedCall> what, std::uint32_t number, std::shared_ptr<const MarkedNccl> nccl,
          Router& router)
      : what_(std::move(what)), number_(number), nccl_(std::move(nccl)), router_(router) {}

  void start(const std::byte* /*in*/, std::byte* /*out*/, std::uint32_t /*stamp*/) override {}
  bool advance() override;
  bool finished() const override { return ended_; }
  const Signature& signature() const override { return what_->signature; }
  const CallRecord& record() const override { return what_->record; }

  std::string waiting_for(int peer) const override;
  std::vector<int> awaited_peers() const override;
  bool awaits_message(int /*peer*/) const override { return false; }
  /// The stream has not come to the call.
  bool on_hold() const override { return !begun_; }

 private:
  std::shared_ptr<const DescribedCall> what_;
  std::uint32_t number_;
  std::shared_ptr<const MarkedNccl> nccl_;
  Router& router_;
  bool begun_ = false, ended_ = false;
};

/// What all ranks have found of NCCL.
struct FoundNccl {
  std::string why_not = "nobody has looked for it";  // empty: all ranks can take it
  bool multicast = false;                            // it may add and copy in the switch between the GPUs
};

class NcclCalls {
 public:
  /// All of them outlive it.
  NcclCalls(const OpenGpu& gpu, const Topology& topology, int rank, EnqueuedCalls& calls)
      : gpu_(gpu), topology_(topology), rank_(rank), calls_(calls) {}

  /// Collective. refused: why this rank must not take it; empty: it may.
  void look_for_it(const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
                   const std::string& refused);
  const FoundNccl& found() const { return found_; }
  /// It could not be opened, on all ranks alike.
  void refuse(const std::string& why) { found_.why_not = why; }

  bool is_open() const { return nccl_ != nullptr; }
  /// Calls need it. Collective. Throws UsageError on all ranks where one has no usable NCCL. keep_waiting: as above.
  void open(const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
            const std::function<void(double)>& keep_waiting);
  /// Returns what looks after the call.
  std::shared_ptr<NcclRun> enqueue(const Call& call, bool in_place, Router& router, gpu::Stream stream);
  /// Into a graph, whose replays nobody looks after: so our own kernel has the ranks meet first. It has the deadline,
  /// and names who does not come.
  void capture(const Call& call, bool in_place, const peers::PeerGroup& peers, gpu::Stream stream);
  /// Ends what NCCL does here. Takes a while: its threads and kernels end before it returns.
  void abort();

 private:
  static constexpr std::size_t kMost = 64;

  std::shared_ptr<const DescribedCall> described(const Call& call, bool in_place);

  const OpenGpu& gpu_;
  const Topology& topology_;
  int rank_;
  EnqueuedCalls& calls_;
  FoundNccl found_;
  RecentCalls<std::shared_ptr<const DescribedCall>> described_{kMost};
  std::shared_ptr<MarkedNccl> nccl_;  // null before it is open
};

}  // namespace lanecast
