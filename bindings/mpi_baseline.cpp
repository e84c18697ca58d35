// SPDX-License-Identifier: Apache-2.0
// The MPI library's own blocking collectives with nothing of Lanecast's in between: what benchmarks compare with.
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bindings.h"
#include "gil.h"
#include "runtime/request/options.h"
#include "transport/mpi/communicator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

/// How many counts a call has.
std::size_t counts_of(Kind kind, int ranks) {
  if (kind == Kind::all_to_all) return 2 * static_cast<std::size_t>(ranks);
  return kind == Kind::all_reduce || kind == Kind::broadcast || kind == Kind::reduce ? 1
                                                                                     : static_cast<std::size_t>(ranks);
}

class MpiBaseline {
 public:
  explicit MpiBaseline(const std::shared_ptr<MpiApi>& api)
      : comm_(MpiCommunicator::duplicate(api, api->world(), {kTimeout_s, {}})) {}

  void run(int kind, const Array& input, const Array& output, int dtype, int op, std::size_t count, bool in_place) {
    call(kind, {input.data(), const_cast<void*>(output.data())}, dtype, op, count, in_place);
  }

  /// On memory of GPUs, by addresses.
  void run_at(int kind, std::pair<std::uintptr_t, std::uintptr_t> addresses, int dtype, int op, std::size_t count,
              bool in_place) {
    call(kind, {reinterpret_cast<const void*>(addresses.first), reinterpret_cast<void*>(addresses.second)}, dtype, op,
         count, in_place);
  }

  bool takes_gpus() const {
    const MpiApi& api = comm_->api();
    return api.takes(GpuVendor::nvidia).value_or(false) || api.takes(GpuVendor::amd).value_or(false);
  }

 private:
  void call(int kind, std::pair<const void*, void*> buffers, int dtype, int op, std::size_t count, bool in_place) {
    const auto collective = static_cast<Kind>(kind);
    counts_.assign(counts_of(collective, comm_->size()), count);
    const bool root = comm_->rank() == 0;
    const bool has_place =
        collective == Kind::broadcast || collective == Kind::all_to_all ? false : !has_root(collective) || root;
    const WithoutGil others_may_run;
    comm_->api().run({comm_->handle(), collective, static_cast<DType>(dtype), static_cast<ReduceOp>(op), nullptr,
                      buffers.first, buffers.second, counts_, in_place && has_place});
  }

  std::shared_ptr<MpiCommunicator> comm_;
  std::vector<std::size_t> counts_;  // kept, so that a call allocates nothing here
};

}  // namespace

void bind_mpi_baseline(nb::module_& m) {
  nb::class_<MpiBaseline> baseline(m, "MpiBaseline",
                                   "MPI's own collectives on all ranks, those with a root from or to rank 0.");
  baseline.def(nb::init<const std::shared_ptr<MpiApi>&>(), "mpi"_a, "Collective.")
      .def("run", &MpiBaseline::run, "kind"_a, "input"_a, "output"_a, "dtype"_a, "op"_a, "count"_a,
           "in_place"_a = false,
           "Blocks. count as in Communicator.run; in_place as MPI_IN_PLACE, with the input in `output`. `avg` adds "
           "only.");
  baseline
      .def("run_at", &MpiBaseline::run_at, "kind"_a, "addresses"_a, "dtype"_a, "op"_a, "count"_a, "in_place"_a = false,
           "The same on memory of GPUs: addresses of input and output. What was enqueued on it has to be done.")
      .def_prop_ro("takes_gpus", &MpiBaseline::takes_gpus, "Does the MPI library say that it takes GPUs' memory?");
  m.def(
      "mpi_reduces", [](int dtype) { return mpi_reduces(static_cast<DType>(dtype)); }, "dtype"_a,
      "Has MPI a predefined reduction for the type?");
}

}  // namespace lanecast
