// SPDX-License-Identifier: Apache-2.0
// The operators that tests need of tensors on a device that is none. Copies run in the order of the current stream;
// all others on the CPU, as soon as that stream has come to them.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "memory.h"
#include "streams.h"

namespace pretend {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pin*/,
                 std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, allocator(), kKeys, dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                         std::optional<bool> /*pin*/) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, allocator(), kKeys, dtype.value_or(at::kFloat));
}

/// The same memory, for the CPU's kernels. It does not keep the tensor: its memory is given back in the order of
/// streams.
at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()).device(at::kCPU));
}

at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool /*non_blocking*/) {
  const c10::Stream stream = Guard().getStream(to.is_cuda() ? to.device() : from.device());
  const at::Tensor source = from.is_cuda() ? on_host(from) : from.clone();  // the host may write its own at once
  enqueue(stream, [target = on_host(to), source] {
    const at::AutoDispatchBelowADInplaceOrView writes;  // of inferences as well
    at::Tensor written = target;
    written.copy_(source);
  });
  if (!to.is_cuda()) synchronize(stream);
  return to;
}

/// How what the CPU has computed comes back.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) {  // an output that was to be resized
    to.unsafeGetTensorImpl()->set_storage_keep_dtype(at::empty(from.sizes(), to.options()).storage());
    to.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
  }
  return to.copy_(from);
}

void on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(&at::native::view));
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("copy_", &copy);
  m.impl("_copy_from_and_resize", &copy_from);
}

}  // namespace
}  // namespace pretend
