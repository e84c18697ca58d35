// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/launcher.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace lanecast::mpi {

std::string Launcher::name() const {
  switch (family) {
    case Family::open_mpi:
      return "Open MPI's mpiexec";
    case Family::mpich:
      return "a PMI launcher (MPICH's mpiexec)";
    case Family::unknown:
      break;
  }
  return slurm ? "srun" : "no MPI launcher";
}

std::string Launcher::remedy() const {
  if (slurm) return "use srun --mpi=pmix or --mpi=pmi2, as that library wants it (srun --mpi=list shows what there is)";
  return "use that library's own mpiexec, or name the library that belongs to the launcher in LANECAST_MPI_LIBRARY";
}

namespace {

int number(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Launcher detect_launcher() {
  // Open MPI first: under a batch system's PMI its launcher's own variables are there as well.
  if (const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE")) return {Family::open_mpi, number(ranks)};
  if (const char* ranks = std::getenv("PMI_SIZE")) return {Family::mpich, number(ranks)};
  if (std::getenv("PMI_PORT") != nullptr && std::getenv("PMI_ID") != nullptr) return {Family::mpich};
  if (std::getenv("SLURM_STEP_ID") != nullptr)
    if (const char* ranks = std::getenv("SLURM_STEP_NUM_TASKS")) return {Family::unknown, number(ranks), true};
  return {};
}

Family family_of(const std::string& version) {
  return version.find("Open MPI") != std::string::npos ? Family::open_mpi : Family::mpich;
}

}  // namespace lanecast::mpi
