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
#include "runtime/agree/ordered_call.h"
#include "runtime/bound/recent_calls.h"
#include "runtime/bound/signature.h"
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

class NativeCalls {
 public:
  /// Collective. keep_waiting: asked while NCCL waits for other ranks, with the seconds since; throws to give up.
  NativeCalls(const OpenGpu& gpu, const Bootstrap& bootstrap, const std::vector<std::string>& library_folders,
              const std::function<void(double)>& keep_waiting);

  struct Enqueued {
    std::shared_ptr<const DescribedCall> what;
    std::uint32_t number = 0;  // of the marks
  };
  Enqueued enqueue(const Call& call, bool in_place, const Topology& topology, gpu::Stream stream);

  bool has_begun(std::uint32_t number) const { return reached(0, number); }
  bool has_ended(std::uint32_t number) const { return reached(1, number); }
  /// Throws what NCCL has met.
  void check() const { nccl_.check(); }
  void abort() { nccl_.abort(); }

 private:
  static constexpr std::size_t kPlans = 64;
  static constexpr std::size_t kApart = 128;  // bytes between the marks

  bool reached(std::size_t mark, std::uint32_t number) const;
  void mark(std::size_t which, gpu::Stream stream) const;
  std::shared_ptr<const DescribedCall> bind(const Call& call, bool in_place, const Topology& topology);

  std::shared_ptr<gpu::Device> device_;
  int rank_;
  gpu::PinnedMemory marks_;  // the number of the latest call that has begun, and of that which has ended
  std::uint32_t calls_ = 0;
  RecentCalls<std::shared_ptr<const DescribedCall>> plans_{kPlans};
  nccl::NcclCommunicator nccl_;
};

/// A call of those, as it is looked after.
class NativeRun final : public OrderedCall {
 public:
  NativeRun(NativeCalls::Enqueued call, std::shared_ptr<const NativeCalls> calls, Router& router)
      : call_(std::move(call)), calls_(std::move(calls)), router_(router) {}

  void start(const std::byte* /*in*/, std::byte* /*out*/, std::uint32_t /*stamp*/) override {}
  bool advance() override;
  bool finished() const override { return ended_; }
  const Signature& signature() const override { return call_.what->signature; }
  const CallRecord& record() const override { return call_.what->record; }

  std::string waiting_for(int peer) const override;
  std::vector<int> awaited_peers() const override;
  bool awaits_message(int /*peer*/) const override { return false; }
  /// The stream has not come to the call.
  bool on_hold() const override { return !begun_; }

 private:
  NativeCalls::Enqueued call_;
  std::shared_ptr<const NativeCalls> calls_;
  Router& router_;
  bool begun_ = false, ended_ = false;
};

}  // namespace lanecast
