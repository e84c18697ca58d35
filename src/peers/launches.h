// SPDX-License-Identifier: Apache-2.0
// The kernels by what they are for, launched with the arguments that they take.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/dtype.h"
#include "device/gpu/kernels.h"
#include "device/gpu/kernels/message_arguments.h"
#include "device/gpu/kernels/program_arguments.h"

namespace lanecast::peers {

class Launches {
 public:
  Launches(std::shared_ptr<gpu::Device> device, std::shared_ptr<const gpu::Kernels> kernels);

  void exchange(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  void exchange_and_reduce(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  void two_shot(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  void broadcast(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  void chain(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  void summed_chain(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  /// By the copy engines of multiprocessors, where has_pumps(), of addresses that 16 divides.
  void pumped_chain(const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  /// Likewise, sums.
  void pumped_two_shot(DType dtype, const gpu::Exchange& arguments, int blocks, gpu::Stream stream) const;
  bool has_pumps(DType dtype) const { return pumped_two_shot_[static_cast<int>(dtype)] != nullptr; }
  void reduce(DType dtype, const gpu::ReductionArguments& arguments, int blocks, gpu::Stream stream) const;
  void copy(const gpu::ReductionArguments& arguments, int blocks, gpu::Stream stream) const;
  /// Of one address range to another on this device, by so many blocks at most; nothing where they are the same.
  void copy_within(gpu::Address to, gpu::Address from, std::size_t bytes, int blocks, gpu::Stream stream) const;
  void direct_copy(const gpu::Direct& arguments, int blocks, gpu::Stream stream) const;
  void direct_reduce(DType dtype, const gpu::Direct& arguments, int blocks, gpu::Stream stream) const;
  void meeting(const gpu::GroupArguments& arguments, int blocks, gpu::Stream stream) const;
  void messages(const gpu::Messages& arguments, int blocks, gpu::Stream stream) const;
  void program(DType dtype, const gpu::ProgramRun& arguments, int lanes, gpu::Stream stream) const;
  void barrier(const gpu::GroupArguments& arguments, gpu::Stream stream) const;
  void hand_over(const gpu::Handover& arguments, gpu::Stream stream) const;

  /// Of a kernel that reads so many bytes from each source, at most `most`.
  static int blocks_for(std::size_t bytes, int most);

  /// Hears of each launch from now on, once it is enqueued.
  using Listener = std::function<void(std::string_view kernel, int blocks)>;
  void listen(Listener listener) { listener_ = std::move(listener); }

  const gpu::Device& device() const { return *device_; }

 private:
  struct LaunchShape {
    int blocks, threads, shared_bytes = 0;
    bool clustered = false;  // where the device has that, and there are enough blocks
  };
  /// One that takes so much shared memory; null where it is not in the source, or the device has less.
  gpu::Function pumped_kernel(const std::string& name, int shared_bytes) const;
  void launch(gpu::Function function, const void* arguments, LaunchShape grid, gpu::Stream stream) const;

  std::shared_ptr<gpu::Device> device_;
  int exchange_threads_, two_shot_threads_, chain_threads_, pumped_two_shot_threads_, pumped_chain_threads_,
      program_threads_;
  std::shared_ptr<const gpu::Kernels> kernels_;
  bool has_clusters_;
  gpu::Function exchange_, broadcast_, chain_, pumped_chain_, messages_, copy_, direct_, meeting_, barrier_, hand_over_;
  std::array<gpu::Function, kDTypes> exchange_and_reduce_{}, two_shot_{}, pumped_two_shot_{}, summed_chain_{},
      reduce_{}, direct_reduce_{}, program_{};
  Listener listener_;
};

}  // namespace lanecast::peers
