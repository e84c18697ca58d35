// SPDX-License-Identifier: Apache-2.0
// A plan bound to a shape as a program on a rank's GPU: one launch a call, in which the device runs the plan.
#pragma once

#include <functional>

#include "device/gpu/copied_memory.h"
#include "program/carried.h"
#include "program/program.h"
#include "runtime/bound/layout.h"
#include "runtime/bound/signature.h"
#include "runtime/watch/call_log.h"

namespace lanecast {

class BoundProgram {
 public:
  /// The device is current. Returns when the program is on it. Throws UsageError for a plan that no program can be.
  BoundProgram(const std::shared_ptr<gpu::Device>& device, Plan plan, Shape shape, const ProgramShape& bound,
               Slicing slicing);
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  const Plan& plan() const { return plan_; }
  const Shape& shape() const { return shape_; }
  const Program& program() const { return program_; }
  /// Where it has counts of its own.
  const CarriedChunks& carried_chunks() const { return carried_; }
  std::size_t scratch_bytes() const { return program_.all_scratch_bytes(); }
  /// "composition 0123 of 1000 float32, by 2x2 in 64 slices"
  const std::string& text() const { return signature_.text; }
  const Signature& signed_call() const { return signature_; }
  const CallRecord& record() const { return record_; }
  /// Equal on ranks that run programs of the same plan and shape.
  std::uint16_t signature() const { return signature(signature_); }
  /// The same of a launch with counts of its own.
  std::uint16_t signature(const Signature& call) const;

  /// What a launch takes, but for what the group of peers knows, and counts that come with it.
  gpu::ProgramRun run(const void* in, void* out) const;

 private:
  Plan plan_;
  Shape shape_;
  Program program_;
  CarriedChunks carried_;
  bool in_flow_;  // as in ProgramRun
  Signature signature_;
  CallRecord record_;
  gpu::CopiedMemory on_device_;  // instructions, operands, carried messages
  gpu::DeviceMemory scratch_;
  gpu::DeviceMemory table_;  // of counts, by lane, where the program leaves it no room in shared memory
};

/// Where the parts of a plan's buffers lie.
ProgramShape program_shape(const Plan& plan, const Shape& shape);

/// The algorithm with messages between two ranks in place of a library's collectives, which no program has.
std::string without_groups(std::string_view algorithm, Kind kind);

/// Throws PlanError unless the programs of these plans, which are all ranks', come to their ends; see
/// program/program.h.
void check_queues(const std::vector<Plan>& plans, const std::function<ProgramShape(const Plan&)>& shaped,
                  Slicing slicing);

/// How all ranks cut their parts, from what all of them know: the longest message of any plan among them.
/// lanes_for: by its bytes. chunks: of a lane, at least; 0: as many as serve speed. plans: of all ranks; in_stages: do
/// they have any, see stages_of()?
Slicing slicing_of(const std::vector<Plan>& plans, bool in_stages, const Shape& shape, int chunks,
                   std::size_t ring_bytes, const std::function<int(std::size_t)>& lanes_for);

}  // namespace lanecast
