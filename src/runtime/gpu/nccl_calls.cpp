// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/nccl_calls.h"

#include "algorithms/algorithms.h"
#include "base/agreed.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {
namespace {

constexpr std::string_view kAlgorithm = "native";

}  // namespace

NativeCalls::NativeCalls(const OpenGpu& gpu, const Bootstrap& bootstrap,
                         const std::vector<std::string>& library_folders,
                         const std::function<void(double)>& keep_waiting)
    : device_(gpu.device),
      rank_(bootstrap.rank),
      marks_(agreed(bootstrap, [&] { return gpu::PinnedMemory(gpu.device, 2 * kApart); })),
      nccl_(gpu.device, bootstrap, library_folders, {gpu.max_ctas, gpu.timeout_s, keep_waiting}) {}

NativeCalls::Enqueued NativeCalls::enqueue(const Call& call, bool in_place, const Topology& topology,
                                           gpu::Stream stream) {
  Enqueued enqueued{bind(call, in_place, topology), ++calls_};
  mark(0, stream);
  nccl_.enqueue({call.kind, call.dtype, call.op, call.in, call.out, call.count, call.root}, stream);
  mark(1, stream);
  return enqueued;
}

std::shared_ptr<const DescribedCall> NativeCalls::bind(const Call& call, bool in_place, const Topology& topology) {
  const Collective collective = collective_of(call, topology.size(), in_place);
  Call whole = call;
  whole.chunks = 1;  // NCCL cuts messages by itself
  if (const auto* const found = plans_.find(collective, whole, kAlgorithm)) return *found;
  Plan plan = make_plan(collective, rank_, topology, kAlgorithm);
  const Shape shape = shape_of(whole);
  auto what = std::make_shared<DescribedCall>(plan, signature_on_gpus(plan, shape), record_of(plan, shape));
  return plans_.make(collective, whole, kAlgorithm, std::move(what));
}

void NativeCalls::mark(std::size_t which, gpu::Stream stream) const {
  device_->check(device_->driver().cuStreamWriteValue32(stream, marks_.device() + which * kApart, calls_, 0),
                 "cuStreamWriteValue32");
}

bool NativeCalls::reached(std::size_t mark, std::uint32_t number) const {
  const auto* const at = reinterpret_cast<const std::uint32_t*>(marks_.host() + mark * kApart);
  // Acquire: who sees that a call has ended sees what it has written to host memory.
  return static_cast<std::int32_t>(__atomic_load_n(at, __ATOMIC_ACQUIRE) - number) >= 0;
}

bool NativeRun::advance() {
  bool moved = router_.progress();
  if (!begun_ && calls_->has_begun(call_.number)) moved = begun_ = true;
  if (begun_ && !ended_ && calls_->has_ended(call_.number)) moved = ended_ = true;
  if (!moved) calls_->check();
  return moved;
}

std::string NativeRun::waiting_for(int /*peer*/) const {
  return "NCCL's " + std::string(name_of(call_.what->plan.collective.kind)) + " on a GPU";
}

std::vector<int> NativeRun::awaited_peers() const {
  const Plan& plan = call_.what->plan;
  std::vector<int> peers;
  for (int rank = 0; rank < plan.collective.size; ++rank)
    if (rank != plan.rank) peers.push_back(rank);
  return peers;
}

}  // namespace lanecast
