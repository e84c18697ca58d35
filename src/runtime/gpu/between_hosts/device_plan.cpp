// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/device_plan.h"

#include <algorithm>
#include <utility>

#include "base/mix.h"
#include "device/gpu/kernels/arguments.h"
#include "plan/device_queue.h"
#include "runtime/bound/shape_of_call.h"
#include "runtime/gpu/between_hosts/chunk_channel.h"
#include "transport/transport.h"

namespace lanecast {
namespace {

std::span<const Block> carried(const Plan& plan, const Step& step) {
  return step.kind == StepKind::send ? plan.src(step) : plan.dst(step);
}

/// Memory that a chunk takes, at most.
struct ChunkMemory {
  std::size_t message_bytes = 0;
  std::size_t scratch_bytes = 0;  // on the device: the plan's, then what a group call has its blocks packed in
};

ChunkMemory memory_of(const Plan& plan, const Shape& shape) {
  const Layout layout(plan, shape);
  const auto most = [&](std::span<const Block> blocks) {
    std::size_t elements = 0;
    // Chunks of a piece differ by an element at either end.
    for (const Block& block : blocks)
      elements += layout.elements(block.piece(), {0, shape.chunks}) + (shape.chunks > 1 ? 2 : 0);
    return aligned(elements * size_of(shape.dtype));
  };
  ChunkMemory memory{0, aligned(layout.scratch_bytes())};
  std::size_t packed = 0;
  for (const Step& step : plan.steps) {
    if (talks(step)) memory.message_bytes += most(carried(plan, step));
    if (step.kind == StepKind::group) packed = std::max(packed, most(plan.src(step)) + most(plan.dst(step)));
  }
  memory.scratch_bytes += packed;
  return memory;
}

/// Whose choice the plan is.
std::string source_of(const Plan& plan) {
  return (plan.collective.composition ? "hierarchy '" : "algorithm '") + plan.algorithm + "': ";
}

/// A rank whose memory is a CPU's makes another call.
Signature on_gpus(Signature signature) {
  signature.text += " on GPUs";
  signature.hash = mix(signature.hash, 1);
  return signature;
}

}  // namespace

void require_few_sources(const Plan& plan) {
  for (const Step& step : plan.steps)
    if (step.sources > gpu::kMostRanks)
      throw UsageError(source_of(plan) + "on GPUs a step adds up to " + std::to_string(gpu::kMostRanks) +
                       " contributions, and this one of " + std::to_string(plan.collective.size) +
                       " ranks has more; name another one");
}

int chunks_that_fit(Shape shape, int ranks, const std::function<Plan(int)>& plan_of) {
  for (int r = 0; r < ranks; ++r) {
    const Plan plan = plan_of(r);
    require_few_sources(plan);
    for (;; shape.chunks *= 2) {
      const ChunkMemory memory = memory_of(plan, shape);
      if (memory.message_bytes <= ChunkChannel::kMessageBytes && memory.scratch_bytes <= ChunkChannel::kScratchBytes)
        break;
      if (shape.chunks > kMostChunks)
        throw UsageError(source_of(plan) + "its " + std::to_string(plan.steps.size()) + " steps on rank " +
                         std::to_string(r) + " have too many messages at a time for GPUs; name another one");
    }
  }
  return shape.chunks;
}

DevicePlan::DevicePlan(Plan plan, Shape shape, std::vector<bool> on_device)
    : plan_(std::move(plan)),
      shape_(std::move(shape)),
      layout_(plan_, shape_),
      order_(device_order(plan_)),
      on_device_(std::move(on_device)),
      signature_(on_gpus(signature_of(plan_, shape_))),
      record_(record_of(plan_, shape_)) {}

std::size_t DevicePlan::scratch_bytes() const {
  return layout_.scratch_bytes() * static_cast<std::size_t>(std::min(shape_.chunks, kChunkChannels));
}

std::uint64_t DevicePlan::number_of(const Step& step, Chunk chunk) const {
  const auto nth = [](std::uint64_t k, Chunk of) {
    return k * static_cast<std::uint64_t>(of.count) + static_cast<std::uint64_t>(of.index);
  };
  if (shape_.piece == 0) return nth(step.ordinal, chunk);
  // The only message of its pair. Ranks that expect another number of pieces must not take these for their own.
  const Chunk own = layout_.cut(carried(plan_, step)[0].part, chunk).chunk;
  return nth(0, own) + static_cast<std::uint64_t>(own.count) * static_cast<std::uint64_t>(own.count - 1) / 2;
}

void DevicePlan::messages(Chunk chunk, std::vector<ChannelMessage>& found) const {
  found.clear();
  std::size_t offset = 0;
  for (const std::uint32_t i : order_) {
    const Step& step = plan_.steps[i];
    if (!talks(step)) continue;
    std::size_t bytes = 0;
    for (const Block& block : carried(plan_, step)) bytes += layout_.place(block, chunk).bytes;
    if (bytes == 0) continue;  // the other side knows it as well
    // Both ranks know the length.
    const bool on_device = bytes >= kLeastOnGpu && on_device_[step.peer];
    found.push_back({i, bytes, offset, on_device, number_of(step, chunk)});
    offset += aligned(bytes);
  }
}

}  // namespace lanecast
