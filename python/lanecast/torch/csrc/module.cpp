// SPDX-License-Identifier: Apache-2.0
// What Python sees of the backend.
#include <gil.h>
#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backend.h"

namespace py = pybind11;

namespace lanecast_torch {
namespace {

c10::intrusive_ptr<Backend> make(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                 const c10::intrusive_ptr<Options>& options, Backend::MakeUnderstudy make_understudy,
                                 std::function<Backend::TakeFromPool()> make_pool) {
  auto engine = std::make_unique<Engine>(StoreBootstrap(store, rank, size, options->timeout), rank, size, *options);
  // Its own: a program may hand the same options to another group.
  return c10::make_intrusive<Backend>(Backend::Group{store, rank, size}, std::move(engine),
                                      c10::make_intrusive<Options>(*options),
                                      Backend::Helpers{std::move(make_understudy), std::move(make_pool)});
}

py::module_ memory() { return py::module_::import("lanecast.torch.memory"); }

std::vector<const void*> segments_of(const py::object& pool) {
  std::vector<const void*> segments;
  for (const auto& address : memory().attr("segments_of")(pool))
    segments.push_back(reinterpret_cast<const void*>(address.cast<std::uintptr_t>()));
  return segments;
}

void bind(py::module_& module) {
  py::class_<Options, c10d::Backend::Options, c10::intrusive_ptr<Options>>(
      module, "Options", "Options of one group, for pg_options; see lanecast.init for what they mean.")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
      .def(
          "__deepcopy__", [](const Options& given, const py::dict&) { return c10::make_intrusive<Options>(given); },
          py::arg("memo"))
      .def_readwrite("timeout", &Options::timeout)
      .def_readwrite("name", &Options::name)
      .def_readwrite("topology", &Options::topology)
      .def_readwrite("transports", &Options::transports)
      .def_readwrite("algorithm", &Options::algorithm)
      .def_readwrite("chunks", &Options::chunks)
      .def_readwrite("reproducible", &Options::reproducible)
      .def_readwrite("check_calls", &Options::check_calls)
      .def_readwrite("trace_dir", &Options::trace_dir)
      .def_readwrite("mpi", &Options::mpi)
      .def_readwrite("allow_shared_gpu", &Options::allow_shared_gpu)
      .def_readwrite("max_ctas", &Options::max_ctas)
      .def_readwrite("kernel_cache", &Options::kernel_cache)
      .def_readwrite("gpu_libraries", &Options::gpu_libraries)
      .def_readwrite("profile", &Options::profile)
      .def_readwrite("processes_per_gpu", &Options::processes_per_gpu)
      .def_readwrite("allow_shared_cores", &Options::allow_shared_cores)
      .def_readwrite("python", &Options::python)
      .def_readwrite("job_size", &Options::job_size)
      .def_readwrite("job_ranks", &Options::job_ranks);
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
      .def_property_readonly(
          "calls_without_copies",
          [](Backend& backend) {
            const lanecast::WithoutGil unlocked;
            return backend.calls_without_copies();
          },
          "How many calls on memory from allocate_tensor() or lanecast.torch.mem_pool() have copied nothing.")
      .def_property_readonly("pairs", &Backend::pairs,
                             "How many peers this rank has GPU messages with by a communicator of the two alone.")
      .def_property_readonly("job", &Backend::job, "How many ranks the job has, and which this group; (0, []): all.")
      // As torch binds them for NCCL alone, some of its releases also for gloo.
      .def_property_readonly("options", &Backend::options, "What torch.distributed.split_group() copies for a part.")
      .def("get_error", &Backend::getError, "How the group has failed, as far as this rank knows.")
      .def(
          "perform_nocolor_split", [](const Backend&, const at::Device&) {}, py::arg("device"),
          "What torch asks of ranks outside of a new group. Nothing: groups are made by their members alone.")
      .def_property_readonly(
          "mem_allocator", [](const Backend&) { return memory().attr("allocator")(); },
          "For a torch.cuda.MemPool whose memory the peers map, as lanecast.torch.mem_pool().")
      .def(
          "register_mem_pool",
          [](Backend& backend, const py::object& pool, bool /*symm*/) { backend.let_peers_map(segments_of(pool)); },
          py::arg("pool"), py::arg("symm") = false,
          "Let the peers map now what the pool has; without it the first call on each segment does.")
      .def(
          "deregister_mem_pool",
          [](const Backend&, const py::object& pool) { Backend::check_mappable(segments_of(pool)); }, py::arg("pool"),
          "Does nothing but judge the pool: peers let go of its memory when the pool frees it.");
  module.def("make", &make, py::call_guard<lanecast::WithoutGil>(), "Make a group's backend. Collective.");
  module.def("shut_down_all", &Backend::shut_down_all, "Shut down every backend of this process.");
}

}  // namespace
}  // namespace lanecast_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { lanecast_torch::bind(module); }
