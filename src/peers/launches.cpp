// SPDX-License-Identifier: Apache-2.0
#include "peers/launches.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lanecast::peers {
namespace {

constexpr int kPumpedTwoShotBytes = static_cast<int>(gpu::kPumpedBytes);
constexpr int kPumpedChainBytes = static_cast<int>(gpu::kPumpBytes);

// Blocks that write to the peers come four by four, so that they spread evenly over the parts of a GPU, each of which
// has a way of its own to the links. Among four H200s 24 blocks of plain writes to all others reached 341 GB/s so, 317
// without, 64 blocks 347 and 340; along a chain 355 and 287, 357 and 345. Of fewer than 16 it made no difference.
constexpr bool kClustered = true;
constexpr unsigned kClusterBlocks = 4;
constexpr int kLeastClustered = 16;

}  // namespace

Launches::Launches(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gpu::Kernels> kernels)
    : device_(std::move(device)),
      exchange_threads_(gpu::exchange_threads(device_->warp())),
      two_shot_threads_(gpu::two_shot_threads(device_->warp())),
      chain_threads_(gpu::chain_threads(device_->warp())),
      pumped_two_shot_threads_(static_cast<int>(gpu::pumped_two_shot_threads(device_->warp()))),
      pumped_chain_threads_(gpu::pumped_chain_threads(device_->warp())),
      program_threads_(gpu::program_threads(device_->warp())),
      kernels_(std::move(kernels)),
      has_clusters_(device_->has_clusters()),
      exchange_(kernels_->get("lanecast_exchange")),
      broadcast_(kernels_->get("lanecast_broadcast")),
      chain_(kernels_->get("lanecast_chain")),
      pumped_chain_(pumped_kernel("lanecast_pumped_chain", kPumpedChainBytes)),
      messages_(kernels_->get("lanecast_messages")),
      copy_(kernels_->get("lanecast_copy")),
      direct_(kernels_->get("lanecast_direct")),
      meeting_(kernels_->get("lanecast_meeting")),
      barrier_(kernels_->get("lanecast_barrier")),
      hand_over_(kernels_->get("lanecast_handover")) {
  for (int k = 0; k < kDTypes; ++k) {
    const std::string name(name_of(static_cast<DType>(k)));
    exchange_and_reduce_[k] = kernels_->get("lanecast_exchange_" + name);
    two_shot_[k] = kernels_->get("lanecast_two_shot_" + name);
    summed_chain_[k] = kernels_->get("lanecast_summed_chain_" + name);
    reduce_[k] = kernels_->get("lanecast_reduce_" + name);
    program_[k] = kernels_->get("lanecast_program_" + name);
    direct_reduce_[k] = kernels_->get("lanecast_direct_" + name);
    pumped_two_shot_[k] = pumped_kernel("lanecast_pumped_two_shot_" + name, kPumpedTwoShotBytes);
  }
}

gpu::Function Launches::pumped_kernel(const std::string& name, int shared_bytes) const {
  if (!kernels_->has(name) || device_->shared_room() < shared_bytes) return nullptr;
  const gpu::Device::Current current(*device_);
  const gpu::Function kernel = kernels_->get(name);
  device_->check(device_->driver().cuFuncSetAttribute(kernel, gpu::kFunctionSharedRoom, shared_bytes),
                 "cuFuncSetAttribute");
  return kernel;
}

void Launches::exchange(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(exchange_, &arguments, {blocks, exchange_threads_, 0, kClustered}, stream);
}

void Launches::exchange_and_reduce(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(exchange_and_reduce_[static_cast<int>(dtype)], &arguments, {blocks, exchange_threads_, 0, kClustered}, stream);
}

void Launches::two_shot(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(two_shot_[static_cast<int>(dtype)], &arguments, {blocks, two_shot_threads_, 0, kClustered}, stream);
}

void Launches::broadcast(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(broadcast_, &arguments, {blocks, two_shot_threads_, 0, kClustered}, stream);
}

void Launches::chain(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(chain_, &arguments, {blocks, chain_threads_, 0, kClustered}, stream);
}

void Launches::summed_chain(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(summed_chain_[static_cast<int>(dtype)], &arguments, {blocks, chain_threads_, 0, kClustered}, stream);
}

void Launches::pumped_chain(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(pumped_chain_, &arguments, {blocks, pumped_chain_threads_, kPumpedChainBytes, kClustered}, stream);
}

void Launches::pumped_two_shot(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const {
  launch(pumped_two_shot_[static_cast<int>(dtype)], &arguments,
         {blocks, pumped_two_shot_threads_, kPumpedTwoShotBytes, kClustered}, stream);
}

void Launches::reduce(DType dtype, const gpu::ReductionArguments& arguments, int blocks, gpu::Stream stream) const {
  launch(reduce_[static_cast<int>(dtype)], &arguments, {blocks, gpu::kThreads}, stream);
}

void Launches::copy(const gpu::ReductionArguments& arguments, int blocks, gpu::Stream stream) const {
  launch(copy_, &arguments, {blocks, gpu::kThreads}, stream);
}

void Launches::copy_within(gpu::Address to, gpu::Address from, std::size_t bytes, int blocks,
                           gpu::Stream stream) const {
  if (bytes == 0 || to == from) return;
  gpu::ReductionArguments one{};
  one.target[one.targets++] = to;
  one.source[one.sources++] = from;
  one.bytes = bytes;
  copy(one, blocks_for(bytes, blocks), stream);
}

void Launches::direct_copy(const gpu::Direct& arguments, int blocks, gpu::Stream stream) const {
  launch(direct_, &arguments, {blocks, gpu::kDirectThreads}, stream);
}

void Launches::direct_reduce(DType dtype, const gpu::Direct& arguments, int blocks, gpu::Stream stream) const {
  launch(direct_reduce_[static_cast<int>(dtype)], &arguments, {blocks, gpu::kDirectThreads}, stream);
}

void Launches::meeting(const gpu::GroupArguments& arguments, int blocks, gpu::Stream stream) const {
  launch(meeting_, &arguments, {blocks, gpu::kMeetingThreads}, stream);
}

void Launches::messages(const gpu::Messages& arguments, int blocks, gpu::Stream stream) const {
  launch(messages_, &arguments, {blocks, gpu::kMessageThreads}, stream);
}

void Launches::program(DType dtype, const gpu::ProgramRun& arguments, int lanes, gpu::Stream stream) const {
  launch(program_[static_cast<int>(dtype)], &arguments, {lanes, program_threads_}, stream);
}

void Launches::barrier(const gpu::GroupArguments& arguments, gpu::Stream stream) const {
  launch(barrier_, &arguments, {1, gpu::kMostRanks}, stream);
}

void Launches::hand_over(const gpu::Handover& arguments, gpu::Stream stream) const {
  launch(hand_over_, &arguments, {1, gpu::kMostRanks * gpu::kDepth}, stream);
}

int Launches::blocks_for(std::size_t bytes, int most) {
  constexpr std::size_t kPerBlock = std::size_t{gpu::kThreads} * 16;
  return static_cast<int>(std::clamp<std::size_t>(bytes / kPerBlock, 1, most));
}

void Launches::launch(gpu::Function function, const void* arguments, LaunchShape grid, gpu::Stream stream) const {
  void* list[] = {const_cast<void*>(arguments)};  // read before the call returns
  const auto blocks = static_cast<unsigned>(grid.blocks), threads = static_cast<unsigned>(grid.threads);
  const auto shared_bytes = static_cast<unsigned>(grid.shared_bytes);
  const gpu::Driver& driver = device_->driver();
  if (grid.clustered && has_clusters_ && grid.blocks >= kLeastClustered && blocks % kClusterBlocks == 0) {
    gpu::LaunchAttribute cluster;
    cluster.value[0] = kClusterBlocks;
    const gpu::LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, stream, &cluster, 1};
    device_->check(driver.cuLaunchKernelEx(&config, function, list, nullptr), "cuLaunchKernelEx");
  } else {
    device_->check(driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, list, nullptr),
                   "cuLaunchKernel");
  }
  if (listener_) listener_(kernels_->name_of(function), grid.blocks);
}

}  // namespace lanecast::peers
