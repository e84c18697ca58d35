// SPDX-License-Identifier: Apache-2.0
// The MPI library's own blocking collectives with nothing of Lanecast's in between: what benchmarks compare with.
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "bindings.h"
#include "plan/collective.h"
#include "transport/mpi/communicator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace lanecast {
namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

GroupKind group_kind(Kind kind) {
  switch (kind) {
    case Kind::all_gather:
      return GroupKind::all_gather;
    case Kind::reduce_scatter:
      return GroupKind::reduce_scatter;
    case Kind::all_reduce:
      return GroupKind::all_reduce;
    default:
      break;
  }
  throw UsageError("MPI runs no collective " + std::to_string(static_cast<int>(kind)));
}

class MpiBaseline {
 public:
  explicit MpiBaseline(const std::shared_ptr<MpiApi>& api) : comm_(MpiCommunicator::duplicate(api, api->world())) {}

  void run(int kind, const Array& input, const Array& output, int dtype, int op, std::size_t count, bool in_place) {
    const GroupKind group = group_kind(static_cast<Kind>(kind));
    counts_.assign(group == GroupKind::all_reduce ? 1 : static_cast<std::size_t>(comm_->size()), count);
    const nb::gil_scoped_release others_may_run;
    comm_->api().run({comm_->handle(), group, static_cast<DType>(dtype), static_cast<ReduceOp>(op), input.data(),
                      const_cast<void*>(output.data()), counts_, in_place});
  }

 private:
  std::shared_ptr<MpiCommunicator> comm_;
  std::vector<std::size_t> counts_;  // kept, so that a call allocates nothing here
};

}  // namespace

void bind_mpi_baseline(nb::module_& m) {
  nb::class_<MpiBaseline>(m, "MpiBaseline", "MPI_Allgather, MPI_Reduce_scatter_block and MPI_Allreduce on all ranks.")
      .def(nb::init<const std::shared_ptr<MpiApi>&>(), "mpi"_a, "Collective.")
      .def("run", &MpiBaseline::run, "kind"_a, "input"_a, "output"_a, "dtype"_a, "op"_a, "count"_a,
           "in_place"_a = false,
           "Blocks. count as in Communicator.run; in_place as MPI_IN_PLACE, with the input in `output`. `avg` adds "
           "only.");
  m.def(
      "mpi_reduces", [](int dtype) { return mpi_reduces(static_cast<DType>(dtype)); }, "dtype"_a,
      "Has MPI a predefined reduction for the type?");
}

}  // namespace lanecast
