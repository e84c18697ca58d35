// SPDX-License-Identifier: Apache-2.0
// Tensors of a GPU's through DLPack's table of functions: what Python's attributes say of two tensors takes as long as
// all the rest of a call.
#include "device_buffers.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "bindings.h"
#include "dlpack_types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {

/// How a package's types let others reach their tensors without a call of Python's. The layout is DLPack's, of its
/// version 1 (DLPackExchangeAPI in dlpack.h); all may be called with the GIL only.
struct ExchangeApi {
  struct {
    std::uint32_t major, minor;
  } version;
  const ExchangeApi* older;
  void *allocate, *to_managed, *from_managed;
  int (*describe)(void* object, nb::dlpack::dltensor* out);  // null where a package has none; −1: Python has an error
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out);
};

namespace {

constexpr const char* kAttribute = "__dlpack_c_exchange_api__";
constexpr const char* kCapsule = "dlpack_exchange_api";
constexpr std::uint32_t kVersion = 1;
constexpr int kUnknownDtype = -1;

bool on_gpu(const nb::dlpack::device& device) {
  return device.device_type == nb::device::cuda::value || device.device_type == nb::device::rocm::value;
}

/// Null where the type has no table of this version.
const ExchangeApi* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, kAttribute, nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), kCapsule)) return nullptr;
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  while (api && api->version.major != kVersion) api = api->older;
  return api && api->describe ? api : nullptr;
}

std::size_t elements_of(const nb::dlpack::dltensor& tensor) {
  std::size_t elements = 1;
  for (std::int32_t d = 0; d < tensor.ndim; ++d) elements *= static_cast<std::size_t>(tensor.shape[d]);
  return elements;
}

bool contiguous(const nb::dlpack::dltensor& tensor) {
  if (elements_of(tensor) == 0) return true;
  std::int64_t expected = 1;
  for (std::int32_t d = tensor.ndim - 1; tensor.strides && d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected) return false;
    expected *= tensor.shape[d];
  }
  return true;
}

/// Of no elements, or with an address: torch describes DTensors and fake ones, whose memory is elsewhere, by none.
bool has_memory(const nb::dlpack::dltensor& tensor) { return tensor.data || elements_of(tensor) == 0; }

[[noreturn]] void refuse(int rank, const std::string& what) {
  throw UsageError("rank " + std::to_string(rank) + ": " + what);
}

DeviceBuffer buffer_of(const nb::dlpack::dltensor& tensor, nb::handle value, const ExchangeApi& exchange) {
  const std::optional<DType> dtype = dtype_of(tensor.dtype);
  return {.address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset,
          .dtype = dtype ? static_cast<int>(*dtype) : kUnknownDtype,
          .size = elements_of(tensor),
          .device = tensor.device.device_id,
          .owner = nb::borrow(value),
          .streams = {&exchange, tensor.device},
          .asked = {}};
}

/// Nothing where the tensor lies elsewhere.
std::optional<DeviceBuffer> device_buffer(nb::handle value, const char* argument, int rank) {
  const ExchangeApi* const exchange = exchange_of(value.type());
  if (!exchange)
    refuse(rank, std::string(argument) + " is of a package whose " + kAttribute + " is not of DLPack's version 1");
  nb::dlpack::dltensor tensor;
  if (exchange->describe(value.ptr(), &tensor) != 0) {  // as of sparse ones, which have no memory of their own
    const nb::python_error error;
    const std::string why = nb::str(error.value()).c_str();
    refuse(rank, std::string(argument) + " cannot be shared: " + why.substr(0, why.find('\n')));  // torch adds frames
  }
  if (!on_gpu(tensor.device)) return {};
  if (!has_memory(tensor)) refuse(rank, std::string(argument) + " has no memory of its own; pass the local tensor");
  if (!contiguous(tensor)) refuse(rank, std::string(argument) + " is not contiguous; pass a contiguous copy");
  return buffer_of(tensor, value, *exchange);
}

}  // namespace

std::uintptr_t CurrentStream::operator()() const {
  void* stream = nullptr;
  if (exchange->current_stream(device.device_type, device.device_id, &stream) != 0) throw nb::python_error();
  return reinterpret_cast<std::uintptr_t>(stream);
}

std::optional<DeviceBuffer> plain_device_buffer(nb::handle value) {
  const ExchangeApi* const exchange = exchange_of(value.type());
  nb::dlpack::dltensor tensor;
  if (!exchange) return {};
  if (exchange->describe(value.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return {};
  }
  if (!on_gpu(tensor.device) || !has_memory(tensor) || !contiguous(tensor)) return {};
  DeviceBuffer buffer = buffer_of(tensor, value, *exchange);
  if (buffer.dtype == kUnknownDtype) return {};
  return buffer;
}

std::uintptr_t DeviceBuffer::stream() const { return streams.exchange ? streams() : nb::cast<std::uintptr_t>(asked()); }

const char* DeviceBuffer::vendor() const {
  if (!streams.exchange) return "";
  return streams.device.device_type == nb::device::rocm::value ? "rocm" : "cuda";
}

void bind_device_buffers(nb::module_& m) {
  nb::class_<CurrentStream>(m, "CurrentStream", "Called for the handle of a device's current stream.")
      .def("__call__", &CurrentStream::operator());
  nb::class_<DeviceBuffer>(m, "DeviceBuffer", "Contiguous memory of the caller's on a GPU.")
      .def(
          "__init__",
          [](DeviceBuffer* buffer, std::uintptr_t address, int dtype, std::size_t size, int device, nb::object owner,
             nb::object asked) {
            new (buffer) DeviceBuffer{address, dtype, size, device, std::move(owner), {}, std::move(asked)};
          },
          "address"_a, "dtype"_a, "size"_a, "device"_a, "owner"_a, "stream"_a,
          "dtype: its code. size: elements. device: an ordinal, -1 where nobody says. stream: called for the handle.")
      .def_ro("address", &DeviceBuffer::address)
      .def_ro("dtype", &DeviceBuffer::dtype)
      .def_ro("size", &DeviceBuffer::size)
      .def_ro("device", &DeviceBuffer::device)
      .def_prop_ro("vendor", &DeviceBuffer::vendor, "cuda or rocm; empty where nobody says.")
      .def_ro("owner", &DeviceBuffer::owner)
      .def_prop_ro(
          "view", [](nb::handle_t<DeviceBuffer> self) { return nb::borrow<nb::typed<nb::object, DeviceBuffer>>(self); },
          "What a call is bound to, as the numpy view of the CPU's memory.")
      .def("stream", &DeviceBuffer::stream, "Handle of the caller's current stream; 0: the default one.")
      .def(
          "later_streams", [](const DeviceBuffer& b) { return b.streams.exchange ? nb::cast(b.streams) : b.asked; },
          nb::sig("def later_streams(self) -> collections.abc.Callable[[], int]"),
          "Called for the same when the tensor may have gone.");
  m.def("device_buffer", &device_buffer, "value"_a, "argument"_a, "rank"_a,
        "The memory of a GPU's tensor whose type has __dlpack_c_exchange_api__, dtype -1 where no reduction knows it; "
        "None where it lies on the CPU. Raises UsageError for what is not contiguous, or has no memory of its own.");
}

}  // namespace lanecast
