// SPDX-License-Identifier: Apache-2.0
#include "host_buffers.h"

#include <vector>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

/// numpy has one object for each of its own types, so they are known by their addresses.
struct KnownType {
  PyObject* dtype;  // kept for ever
  int code;
};

std::vector<KnownType>& known_types() {
  static std::vector<KnownType> types;  // a few; guarded by Python's lock
  return types;
}

}  // namespace

std::optional<HostBuffer> plain_host_buffer(nb::handle array, bool written) {
  static PyObject* const kDtype = PyUnicode_InternFromString("dtype");
  const nb::object dtype = nb::steal(PyObject_GetAttr(array.ptr(), kDtype));
  if (!dtype.is_valid()) {
    PyErr_Clear();
    return {};
  }
  for (const KnownType& known : known_types()) {
    if (known.dtype != dtype.ptr()) continue;
    Py_buffer view;
    if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS | (written ? PyBUF_WRITABLE : 0)) == 0)
      return HostBuffer(view, known.code);
    PyErr_Clear();
    return {};
  }
  return {};
}

void bind_host_buffers(nb::module_& m) {
  m.def(
      "know_dtype", [](nb::handle dtype, int code) { known_types().push_back({dtype.inc_ref().ptr(), code}); },
      "dtype"_a, "code"_a, "A type of numpy's own that calls take.");
}

}  // namespace lanecast
