// SPDX-License-Identifier: Apache-2.0
// The Python extension lanecast._core.
#include "bindings.h"

NB_MODULE(_core, m) {
  m.doc() = "The C++ core of Lanecast; use the package lanecast instead.";
  nanobind::set_leak_warnings(false);  // objects that live until the process ends are no fault of a user
  m.attr("VERSION") = LANECAST_VERSION;
  m.attr("BUILT_WITH") = LANECAST_BUILT_WITH;
  lanecast::bind_errors(m);
  lanecast::bind_topology(m);
  lanecast::bind_plan(m);
  lanecast::bind_program(m);
  lanecast::bind_algorithms(m);
  lanecast::bind_compose(m);
  lanecast::bind_learned(m);
  lanecast::bind_models(m);
  lanecast::bind_kernels(m);
  lanecast::bind_buffers(m);
  lanecast::bind_device_buffers(m);
  lanecast::bind_gpu_libraries(m);
  lanecast::bind_surprises(m);
  lanecast::bind_runtime(m);
  lanecast::bind_helper_trials(m);
  lanecast::bind_link_times(m);
  lanecast::bind_transports(m);
  lanecast::bind_emulated(m);
  lanecast::bind_shm_ways(m);
  lanecast::bind_profiles(m);
  lanecast::bind_mpi_baseline(m);
}
