// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/launch_counts.h"

#include <algorithm>

#include "runtime/bound/shape_of_call.h"

namespace lanecast {

void LaunchCounts::set(const BoundProgram& program, const Call& call) {
  const CountedParts& parts = program.program().counted_parts();
  used_ = parts.rows.size();
  inputs_ = parts.inputs;
  on_device_ = call.counts_on_device;
  if (parts.by_pairs) {
    signature_ = program.signed_call();
    record_ = program.record();
    if (on_device_) return;
    std::ranges::copy(call.send_counts, words());
    std::ranges::copy(call.recv_counts, words() + inputs_);
    return;
  }
  std::ranges::transform(parts.rows, words(), [&](std::int32_t part) { return call.counts[part]; });
  Shape shape = shape_of(call);
  shape.chunks = program.shape().chunks;
  signature_ = signature_on_gpus(program.plan(), shape);
  record_ = record_of(program.plan(), shape);
}

void LaunchCounts::fill(gpu::ProgramRun& run) const {
  gpu::CountsOfRun& counts = run.counts;
  if (!on_device_) {  // the host has compared them
    counts.list[0] = lists_.device();
    counts.list[1] = lists_.device() + inputs_ * sizeof(std::uint64_t);
    counts.bound = counts.held[0] = counts.held[1] = SIZE_MAX;
    return;
  }
  counts.list[0] = reinterpret_cast<gpu::Address>(on_device_->sends);
  counts.list[1] = reinterpret_cast<gpu::Address>(on_device_->receives);
  counts.element_bytes *= static_cast<gpu::u32>(on_device_->row);
  counts.bound = on_device_->bound;
  counts.held[0] = on_device_->in_rows;
  counts.held[1] = on_device_->out_rows;
  counts.told = lists_.device();
}

std::vector<std::size_t> LaunchCounts::by_row() const {
  std::vector<std::size_t> counts(words(), words() + used_);
  if (on_device_)
    for (std::size_t& count : counts) count *= on_device_->row;
  return counts;
}

}  // namespace lanecast
