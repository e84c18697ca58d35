// SPDX-License-Identifier: Apache-2.0
// One function per room of the core adds that room to the Python module.
#pragma once

#include <nanobind/nanobind.h>

namespace lanecast {

void bind_errors(nanobind::module_& m);
void bind_topology(nanobind::module_& m);
void bind_plan(nanobind::module_& m);
void bind_program(nanobind::module_& m);
void bind_algorithms(nanobind::module_& m);
void bind_compose(nanobind::module_& m);
void bind_learned(nanobind::module_& m);
void bind_models(nanobind::module_& m);
void bind_link_times(nanobind::module_& m);
void bind_kernels(nanobind::module_& m);
void bind_transports(nanobind::module_& m);
void bind_emulated(nanobind::module_& m);
void bind_shm_ways(nanobind::module_& m);
void bind_buffers(nanobind::module_& m);
void bind_device_buffers(nanobind::module_& m);
void bind_gpu_libraries(nanobind::module_& m);
void bind_profiles(nanobind::module_& m);
void bind_surprises(nanobind::module_& m);
void bind_runtime(nanobind::module_& m);
void bind_helper_trials(nanobind::module_& m);
void bind_mpi_baseline(nanobind::module_& m);

}  // namespace lanecast
