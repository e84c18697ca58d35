// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <ATen/core/LegacyTypeDispatch.h>

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
  if (arrived.copies()) on_arrival([arrived] { arrived.unpack(); });
}

void Work::arrive() {
  // As the core's writes, these are none of autograd's affair, and the tensors may be those of an inference.
  const at::AutoDispatchBelowADInplaceOrView writes;
  for (const auto& step : on_arrival_) step();
  on_arrival_.clear();
}

}  // namespace lanecast_torch
