// SPDX-License-Identifier: Apache-2.0
// The CPU kernels as Python sees them, for tests and benchmarks: raw bytes in, raw bytes out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/overrange.h"
#include "base/store_choice.h"
#include "device/host/variant.h"
#include "gil.h"
#include "runtime/bound/span_ops.h"

namespace nb = nanobind;

namespace lanecast {
namespace {

using Bytes = nb::ndarray<std::uint8_t, nb::c_contig, nb::device::cpu>;
using ConstBytes = nb::ndarray<const std::uint8_t, nb::c_contig, nb::device::cpu>;

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const host::Variant* variant : host::usable_variants()) names.emplace_back(variant->name);
  return names;
}

const host::Variant& find_variant(const std::string& name) {
  for (const host::Variant* variant : host::usable_variants())
    if (name.empty() || variant->name == name) return *variant;
  throw UsageError("reduce: this CPU cannot run a variant '" + name + "'; kernel_variants() lists those it can");
}

DType find_dtype(const std::string& name) {
  if (const auto dtype = dtype_from(name)) return *dtype;
  throw UsageError("reduce: unknown dtype '" + name + "'");
}

ReduceOp find_op(const std::string& name) {
  if (const auto op = op_from(name)) return *op;
  throw UsageError("reduce: unknown op '" + name + "'");
}

void reduce(const std::string& dtype, const std::string& op, Bytes dst, const std::vector<ConstBytes>& sources,
            std::size_t count, double divisor, const std::string& variant, int ranks) {
  host::ReduceArguments reduction{find_dtype(dtype), find_op(op), dst.data(), {}, count, {divisor, 0}};
  reduction.finish.overrange = ranks < 0 ? kAddedAtOnce : overrange_of(reduction.dtype, reduction.op, ranks);
  const std::size_t room = dst.nbytes() / size_of(reduction.dtype);
  if (count > room) throw UsageError("reduce: dst has room for " + std::to_string(room) + " elements only");
  std::vector<const void*> addresses;
  for (const ConstBytes& source : sources) {
    if (source.nbytes() / size_of(reduction.dtype) < count)
      throw UsageError("reduce: a source has fewer than " + std::to_string(count) + " elements");
    addresses.push_back(source.data());
  }
  reduction.sources = addresses;
  const host::Variant& chosen = find_variant(variant);
  const WithoutGil others_may_run;
  host::reduce_with(chosen, reduction);
}

/// As a plan's step adds: every list cuts the same bytes its own way.
void reduce_spans_by(const std::string& dtype, const std::string& op, const std::vector<Bytes>& dst,
                     const std::vector<std::vector<Bytes>>& sources, std::size_t bytes, bool bypassing) {
  const auto spans_of = [](const std::vector<Bytes>& parts) {
    std::vector<Span> spans;
    for (const Bytes& part : parts) spans.push_back({reinterpret_cast<std::byte*>(part.data()), part.nbytes()});
    return spans;
  };
  std::vector<std::vector<Span>> lists;
  ReduceSources from;
  for (const auto& source : sources) lists.push_back(spans_of(source));
  for (const auto& list : lists) from.cursors.emplace_back(list);
  const std::vector<Span> to = spans_of(dst);
  const Stores stores = bypassing ? Stores::bypassing : Stores::ordinary;
  reduce_spans({find_dtype(dtype), find_op(op)}, SpanCursor(to), from, bytes, stores);
  wait_for_stores(stores);
}

}  // namespace

void bind_kernels(nb::module_& m) {
  using namespace nb::literals;
  m.def("reduce_spans", reduce_spans_by, "dtype"_a, "op"_a, "dst"_a, "sources"_a, "bytes"_a, "bypassing"_a,
        "dst and each source: a list of parts that lie together, given as bytes. bypassing: past the cache.");
  nb::class_<StoreChoice>(m, "StoreChoice", "See src/base/store_choice.h.")
      .def(nb::init<>())
      .def(
          "write",
          [](StoreChoice& choice, std::size_t bytes, const nb::callable& write) {
            choice.write(bytes, [&](Stores stores) { write(stores == Stores::bypassing); });
          },
          "bytes"_a, "write"_a, "write(bypassing) writes them; what it takes is timed, mostly.")
      .def("ratio", &StoreChoice::ratio);
  m.def("kernel_variants", variant_names,
        "Builds of the CPU kernels that this CPU can run, fastest (the default) first.");
  m.def("reduce", reduce, "dtype"_a, "op"_a, "dst"_a, "sources"_a, "count"_a, "divisor"_a = 1.0, "variant"_a = "",
        "ranks"_a = 0,
        "Reduces the first `count` elements of the sources, given as bytes, into dst. ranks: of an average, those that "
        "bring something, so that no sum ends at the type's range; 0: all do; -1: these sources are all.");
}

}  // namespace lanecast
