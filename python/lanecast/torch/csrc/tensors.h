// SPDX-License-Identifier: Apache-2.0
// What tensors a call takes, and lists of tensors as one buffer.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace lanecast_torch {

using Tensors = std::vector<at::Tensor>;

/// The one tensor of a list that must hold one: c10d hands over lists since the time when a process had several GPUs.
const at::Tensor& only(const char* call, const char* argument, const Tensors& tensors);

/// Raises ValueError unless both have the same type.
void check_same_type(const char* call, const at::Tensor& output, const at::Tensor& input);

/// What a call does with tensors: those that it only reads may have elements that share memory.
enum class Access { read, write };

/// Tensors of one type side by side in one buffer, each in the order of its indices: what travels never depends on the
/// strides that a rank happens to have. Tensors that lie so already are used where they are.
class SideBySide {
 public:
  /// Raises ValueError (call, argument, reason) for tensors that differ in type, are not dense, lie on another device
  /// than a CPU or GPU, or are written and have elements that share memory.
  SideBySide(const char* call, const char* argument, const Tensors& tensors, Access access = Access::write);

  /// What is sent, received, and has to live as long as the call.
  const at::Tensor& buffer() const { return buffer_; }
  void* data() const { return buffer_.data_ptr(); }
  /// All elements as one tensor, which owns none of the memory of tensors that are used where they are.
  at::Tensor whole() const;
  /// Elements of each tensor.
  const std::vector<std::size_t>& counts() const { return counts_; }
  bool even() const;

  /// Copy between the tensors and the buffer, where they are two. See Work::arrive() for what unpack() needs.
  void pack() const;
  void unpack() const;
  bool copies() const { return copies_; }

 private:
  at::Tensor part(std::size_t k) const;

  Tensors tensors_;
  std::vector<std::size_t> counts_, offsets_;  // elements
  at::Tensor buffer_;
  bool copies_ = false;
};

}  // namespace lanecast_torch
