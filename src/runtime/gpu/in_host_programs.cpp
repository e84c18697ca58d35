// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu/in_host_programs.h"

#include <utility>

#include "algorithms/algorithms.h"
#include "plan/verify.h"
#include "program/delays.h"
#include "runtime/bound/shape_of_call.h"

namespace lanecast {

std::shared_ptr<const BoundProgram> InHostPrograms::bind(Plan plan, Shape shape, Slicing slicing,
                                                         std::vector<std::int32_t> stages) const {
  const gpu::Device::Current current(*device_);
  ProgramShape bound = program_shape(plan, shape);
  bound.stages = std::move(stages);
  return std::make_shared<const BoundProgram>(device_, std::move(plan), std::move(shape), bound, slicing);
}

Slicing InHostPrograms::slicing_of(const std::vector<Plan>& plans, bool in_stages, const Shape& shape,
                                   int chunks) const {
  return lanecast::slicing_of(plans, in_stages, shape, chunks, gpu::ring_bytes(static_cast<gpu::u32>(topology_.size())),
                              [this](std::size_t bytes) { return peers_.lanes_for(bytes); });
}

std::shared_ptr<const BoundProgram> InHostPrograms::named(const Call& call, bool in_place,
                                                          const std::function<Choice()>& choose) {
  const int size = topology_.size();
  const Collective collective = collective_of(call, size, in_place);
  if (auto* const found = named_.find(collective, call, call.algorithm)) return *found;
  const std::string algorithm = choose().algorithm;
  // Whether other ranks are in place nobody knows, and their messages are the same either way.
  std::vector<Plan> plans;
  plans.reserve(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r)
    plans.push_back(make_plan(collective, r, topology_, without_groups(algorithm, call.kind)));
  verify(plans);
  Shape shape = shape_of(call);
  const std::vector<std::int32_t> stages = stages_of(plans);
  const Slicing slicing = slicing_of(plans, !stages.empty(), shape, call.chunks);
  shape.chunks = slicing.chunks;
  const auto shaped = [&](const Plan& plan) {
    ProgramShape bound = program_shape(plan, shape);
    bound.stages = stages;
    return bound;
  };
  check_queues(plans, shaped, slicing);
  Plan& own = plans[peers_.rank()];
  own.algorithm = algorithm;
  return named_.make(collective, call, call.algorithm, bind(std::move(own), shape, slicing, stages));
}

void InHostPrograms::enqueue(const Call& call, bool in_place, const std::function<Choice()>& choose,
                             gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  enqueue(named(call, in_place, choose), call.in, call.out, stream);
}

void InHostPrograms::enqueue(const std::shared_ptr<const BoundProgram>& program, const void* in, void* out,
                             gpu::Stream stream) {
  const gpu::Device::Current current(*device_);
  const bool captured = enqueued_.order.capturing(stream);
  enqueued_.programs.keep(program, captured);
  enqueued_.order.in_turn(stream, captured, [&] {
    peers_.programs()->run(program->shape().dtype, program->run(in, out), program->program().slicing.lanes, stream);
  });
}

}  // namespace lanecast
