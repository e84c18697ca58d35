// SPDX-License-Identifier: Apache-2.0
// Memory of other libraries through DLPack, without a copy.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings.h"
#include "dlpack_types.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

std::string text_of(const nb::dlpack::dtype& type) {
  if (const std::optional<DType> known = dtype_of(type)) return std::string(name_of(*known));
  return "of DLPack's type " + std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits";
}

template <class Imported>
nb::object view_of(nb::handle object) {
  Imported imported;
  if (!nb::try_cast(object, imported, /*convert=*/false)) return nb::none();
  if (!imported.data() && imported.size() > 0) return nb::none();  // as torch exports DTensors and fake tensors
  const auto type = imported.dtype();
  const nb::capsule owner(new Imported(imported), [](void* held) noexcept { delete static_cast<Imported*>(held); });
  const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bytes(imported.data(), {imported.nbytes()}, owner);
  return nb::make_tuple(bytes, text_of(type), imported.size());
}

}  // namespace

void bind_buffers(nb::module_& m) {
  m.def(
      "dlpack_view",
      [](nb::handle object, bool written) {
        return written ? view_of<nb::ndarray<nb::c_contig>>(object)
                       : view_of<nb::ndarray<nb::ro, nb::c_contig>>(object);
      },
      "object"_a, "written"_a,
      "(its memory as bytes, the type's name, elements); None for what is not contiguous, has no memory, or is "
      "read-only where it is written. The CPU must reach the memory.");
}

}  // namespace lanecast
