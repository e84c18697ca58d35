// SPDX-License-Identifier: Apache-2.0
// Which MPI's mpiexec started this process, told by the environment it leaves.
#pragma once

#include <string>

namespace lanecast::mpi {

enum class Family { unknown, open_mpi, mpich };

struct Launcher {
  Family family = Family::unknown;  // unknown: none, or one that serves several MPIs
  int ranks = 0;                    // 0 where it does not say
  bool slurm = false;               // srun without a service that would tell an MPI of the other ranks

  std::string name() const;
  /// What to do when a library finds itself alone, though there are more ranks.
  std::string remedy() const;
};

Launcher detect_launcher();

/// The family of a library by its version text.
Family family_of(const std::string& version);

}  // namespace lanecast::mpi
