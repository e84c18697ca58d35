// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <functional>

namespace lanecast_torch {
namespace {

void check_movable(const char* call, const char* argument, const at::Tensor& tensor, Access access) {
  TORCH_CHECK_VALUE(tensor.defined(), "lanecast: ", call, ": ", argument, " is no tensor");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "lanecast: ", call, ": ", argument, " has the layout ",
                    tensor.layout(), ": only dense tensors can be moved; see Tensor.to_dense()");
  TORCH_CHECK_VALUE(tensor.device().is_cpu() || tensor.is_cuda(), "lanecast: ", call, ": ", argument, " is on ",
                    tensor.device(), ": this backend moves tensors of the CPU and of CUDA devices");
  TORCH_CHECK_VALUE(access == Access::read || at::has_internal_overlap(tensor) != at::MemOverlap::Yes,
                    "lanecast: ", call, ": ", argument, " of shape ", tensor.sizes(), " and strides ", tensor.strides(),
                    " has elements that share memory; see Tensor.contiguous()");
}

}  // namespace

const at::Tensor& only(const char* call, const char* argument, const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "lanecast: ", call, ": ", argument, ": expected one tensor, got ",
                    tensors.size());
  return tensors[0];
}

void check_same_type(const char* call, const at::Tensor& output, const at::Tensor& input) {
  TORCH_CHECK_VALUE(output.scalar_type() == input.scalar_type(), "lanecast: ", call, ": the input is of type ",
                    input.scalar_type(), ", the output of type ", output.scalar_type());
}

SideBySide::SideBySide(const char* call, const char* argument, const Tensors& tensors, Access access)
    : tensors_(tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), "lanecast: ", call, ": ", argument, ": the list is empty");
  std::size_t total = 0;
  const char* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    check_movable(call, argument, tensor, access);
    TORCH_CHECK_VALUE(tensor.scalar_type() == tensors[0].scalar_type(), "lanecast: ", call, ": ", argument,
                      ": the tensors are of different types, ", tensors[0].scalar_type(), " and ",
                      tensor.scalar_type());
    const auto count = static_cast<std::size_t>(tensor.numel());
    const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
    if (!tensor.is_contiguous() || (next && count > 0 && begin != next)) copies_ = true;
    if (count > 0) next = begin + tensor.nbytes();
    counts_.push_back(count);
    offsets_.push_back(total);
    total += count;
  }
  const auto first = std::find_if(counts_.begin(), counts_.end(), [](std::size_t count) { return count > 0; });
  buffer_ = copies_ ? at::empty({static_cast<std::int64_t>(total)}, tensors[0].options().requires_grad(false))
                    : tensors[first == counts_.end() ? 0 : static_cast<std::size_t>(first - counts_.begin())];
}

bool SideBySide::even() const {
  return std::adjacent_find(counts_.begin(), counts_.end(), std::not_equal_to<>()) == counts_.end();
}

at::Tensor SideBySide::whole() const {
  if (copies_ || tensors_.size() == 1) return buffer_;
  const auto total = static_cast<std::int64_t>(offsets_.back() + counts_.back());
  return at::for_blob(data(), {total})
      .options(buffer_.options().requires_grad(false))
      .target_device(buffer_.device())
      .make_tensor();
}

at::Tensor SideBySide::part(std::size_t k) const {
  return buffer_.narrow(0, static_cast<std::int64_t>(offsets_[k]), static_cast<std::int64_t>(counts_[k]))
      .view(tensors_[k].sizes());
}

void SideBySide::pack() const {
  if (!copies_) return;
  const at::NoGradGuard no_grad;
  for (std::size_t k = 0; k < tensors_.size(); ++k) part(k).copy_(tensors_[k]);
}

void SideBySide::unpack() const {
  if (!copies_) return;
  for (std::size_t k = 0; k < tensors_.size(); ++k) tensors_[k].copy_(part(k));
}

}  // namespace lanecast_torch
