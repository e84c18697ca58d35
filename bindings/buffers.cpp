// SPDX-License-Identifier: Apache-2.0
// Memory of other libraries through DLPack, without a copy.
#include <nanobind/ndarray.h>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

template <class Imported>
nb::object view_of(nb::handle object) {
  Imported imported;
  if (!nb::try_cast(object, imported, /*convert=*/false)) return nb::none();
  const auto type = imported.dtype();
  const nb::capsule owner(new Imported(imported), [](void* held) noexcept { delete static_cast<Imported*>(held); });
  const nb::ndarray<nb::numpy, const std::uint8_t, nb::ndim<1>> bytes(imported.data(), {imported.nbytes()}, owner);
  return nb::make_tuple(bytes, type.code, type.lanes == 1 ? type.bits : 0, imported.size());
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
      "(its memory as bytes, DLPack's type code, bits, elements); None for what is not contiguous, or read-only where "
      "it is written. The CPU must reach the memory.");
}

}  // namespace lanecast
