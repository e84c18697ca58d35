// SPDX-License-Identifier: Apache-2.0
#include "host_buffers.h"

#include <cstring>
#include <string_view>

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
  const std::string_view format = view.format ? view.format : "B";
  if (format.size() != 1) return {};
  const auto sized = [&](std::string_view letters, std::string_view kind) -> std::optional<DType> {
    if (letters.find(format[0]) == std::string_view::npos) return {};
    return dtype_from(std::string(kind) + std::to_string(8 * view.itemsize));
  };
  if (const auto found = sized("efd", "float")) return found;
  if (const auto found = sized("bhilq", "int")) return found;
  return sized("BHILQ", "uint");
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
