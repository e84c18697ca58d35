// SPDX-License-Identifier: Apache-2.0
#include "host_buffers.h"

#include <cstdint>

#include "base/dtype.h"

namespace nb = nanobind;

namespace lanecast {
namespace {

/// numpy.ndarray itself: a subclass, or what else has a buffer, may say one thing of its memory and mean another.
bool is_plain_array(nb::handle object) {
  static PyObject* const kArray = nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == kArray;
}

/// By the letter that the buffer protocol has for one of numpy's own types in this machine's order of bytes.
std::optional<DType> dtype_of(const Py_buffer& view) {
  static_assert(sizeof(long) == sizeof(std::int64_t));
  if (!view.format || view.format[0] == '\0' || view.format[1] != '\0') return {};
  switch (view.format[0]) {
    case 'e':
      return DType::float16;
    case 'f':
      return DType::float32;
    case 'd':
      return DType::float64;
    case 'b':
      return DType::int8;
    case 'h':
      return DType::int16;
    case 'i':
      return DType::int32;
    case 'l':
    case 'q':
      return DType::int64;
    case 'B':
      return DType::uint8;
    case 'H':
      return DType::uint16;
    case 'I':
      return DType::uint32;
    case 'L':
    case 'Q':
      return DType::uint64;
    default:
      return {};
  }
}

}  // namespace

std::optional<HostBuffer> plain_host_buffer(nb::handle array, bool written) {
  if (!is_plain_array(array)) return {};
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (written ? PyBUF_WRITABLE : 0)) != 0) {
    PyErr_Clear();
    return {};
  }
  HostBuffer buffer(view);
  const auto dtype = dtype_of(view);
  if (!dtype) return {};
  buffer.dtype = *dtype;
  return buffer;
}

}  // namespace lanecast
