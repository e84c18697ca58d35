// SPDX-License-Identifier: Apache-2.0
// What a program may hand to a group as pg_options.
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace lanecast_torch {

inline constexpr const char* kName = "lanecast";

/// As lanecastConfig_t has them; empty, zero: from the environment, or chosen.
struct Options final : c10d::Backend::Options {
  explicit Options(std::chrono::milliseconds group_timeout = kBackendDefaultTimeout)
      : c10d::Backend::Options(kName, group_timeout) {}

  std::string name = kName;  // what the group's backend says that it is: that of another, where it takes its place
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
  int processes_per_gpu = 0;  // of calls on CPU tensors
  bool allow_shared_cores = false;
  std::string python;          // that runs helpers
  int job_size = 0;            // of the job that variables describe, where the group has not all of its ranks
  std::vector<int> job_ranks;  // which ones it has
  bool job_options = false;    // what stands above describes the job, too
  std::string whose_ranks;     // what errors add, where their ranks are not those of the group

  /// For a group of these ranks of one that has these options, and `size` ranks: all that they say describes that one's
  /// job.
  void take_part(int size, const std::vector<int>& ranks) {
    // What the program has said of a part alone goes before what variables say of the whole.
    const bool of_part_alone = job_size != 0 && !job_options && !(topology + transports + algorithm).empty();
    if (job_size == 0 || of_part_alone) {
      job_size = size;
      job_ranks = ranks;
    } else {
      std::vector<int> places;
      places.reserve(ranks.size());
      for (const int rank : ranks) places.push_back(job_ranks[rank]);
      job_ranks = std::move(places);
    }
    job_options = true;
  }

  /// What was found out about this process when another group was made, where nothing is said here.
  void take_findings(const Options& of_another) {
    mpi = of_another.mpi;
    if (kernel_cache.empty()) kernel_cache = of_another.kernel_cache;
    if (gpu_libraries.empty()) gpu_libraries = of_another.gpu_libraries;
    if (profile.empty()) profile = of_another.profile;
    if (python.empty()) python = of_another.python;
  }
};

}  // namespace lanecast_torch
