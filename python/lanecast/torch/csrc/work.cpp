// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <utility>

namespace lanecast_torch {

c10::intrusive_ptr<c10::ivalue::Future> future_of_tensors(std::vector<c10::Device> devices) {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

Work::Work(const Call& call, std::vector<c10::Device> devices)
    : c10d::Work(call.rank, call.type, call.profiling_title, call.inputs),
      outputs_(call.outputs),
      future_(future_of_tensors(std::move(devices))),
      sequence_(call.sequence) {
  for (const at::Tensor& tensor : call.inputs) keep(tensor);
  for (const at::Tensor& tensor : call.outputs) keep(tensor);
}

void Work::deliver(const SideBySide& arrived) {
  keep(arrived.buffer());
  if (arrived.copies()) arrivals_.push_back(arrived);
}

}  // namespace lanecast_torch
