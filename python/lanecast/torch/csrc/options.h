// SPDX-License-Identifier: Apache-2.0
// What a program may hand to a group as pg_options.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lanecast_torch {

inline constexpr const char* kName = "lanecast";

/// As lanecastConfig_t has them; empty, zero: from the environment, or chosen.
struct Options final : c10d::Backend::Options {
  explicit Options(std::chrono::milliseconds group_timeout = kBackendDefaultTimeout)
      : c10d::Backend::Options(kName, group_timeout) {}

  std::string topology, transports, algorithm;
  int chunks = 0;
  bool reproducible = false;
  bool check_calls = true;
  std::string trace_dir;
  bool mpi = false;  // all ranks are of one MPI job, which can carry messages between hosts
  bool allow_shared_gpu = false;
  int max_ctas = 0;                         // 0: as many as leave enough to the computation
  std::string kernel_cache, gpu_libraries;  // folders
  std::string profile;

  /// What was found out about this process when another group was made, where nothing is said here.
  void take_findings(const Options& of_another) {
    mpi = of_another.mpi;
    if (kernel_cache.empty()) kernel_cache = of_another.kernel_cache;
    if (gpu_libraries.empty()) gpu_libraries = of_another.gpu_libraries;
    if (profile.empty()) profile = of_another.profile;
  }
};

}  // namespace lanecast_torch
