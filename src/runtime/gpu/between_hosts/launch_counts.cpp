// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/between_hosts/launch_counts.h"

#include <algorithm>

#include "runtime/bound/shape_of_call.h"

namespace lanecast {

void LaunchCounts::set(const BoundProgram& program, const Call& call) {
  const CountedParts& parts = *program.program().counted;
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
  counts.list[0] = on_device_ ? reinterpret_cast<gpu::Address>(on_device_->sends) : lists_.device();
  counts.list[1] = on_device_ ? reinterpret_cast<gpu::Address>(on_device_->receives)
                              : lists_.device() + inputs_ * sizeof(std::uint64_t);
  counts.bound = on_device_ ? on_device_->bound : SIZE_MAX;  // the host has compared its own
  counts.held[0] = on_device_ ? on_device_->in_elements : SIZE_MAX;
  counts.held[1] = on_device_ ? on_device_->out_elements : SIZE_MAX;
  counts.told = on_device_ ? lists_.device() : 0;
}

std::vector<std::size_t> LaunchCounts::by_row() const { return {words(), words() + used_}; }

}  // namespace lanecast
