/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with helpers under an MPI's launcher, in a program that calls MPI as well; nothing stays behind. Arguments:
 * processes of each rank, a Python. LANECAST_PROCESSES_PER_GPU is 2, and helpers may share cores. */
#define _GNU_SOURCE
#include <mpi.h>

#include "helped_calls.h"

/* What MPI itself moves stays what it was. */
static void sum_by_mpi(int size) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT(sum == size * (size - 1) / 2);
}

static void summed(lanecastComm_t comm, int size) {
  float* const vector = floats(kCount);
  for (int turn = 0; turn < 4; ++turn) {
    filled(vector, kCount, (float)rank);
    SUCCEEDS(lanecastAllReduce(vector, vector, kCount, lanecastFloat32, lanecastSum, comm));
    expect_all(vector, kCount, (float)(size * (size - 1) / 2), (float)size);
  }
  free(vector);
}

static void whole_job(int size, int processes, const char* python) {
  lanecastError_t error;
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  config.timeout_s = 60;
  config.processes_per_gpu = processes;
  config.python = python;
  lanecastComm_t comm = NULL, child = NULL;
  config.transports = "mpi";
  EXPECT(lanecastCommInitMPI(&comm, NULL, &config) == lanecastUsageError);
  EXPECT(strstr(error.text, "they are no ranks of the MPI; name ucx in its place") != NULL);
  config.transports = NULL;
  config.algorithm = "mpi"; /* which the MPI moves, and helpers cannot */
  SUCCEEDS(lanecastCommInitMPI(&comm, NULL, &config));
  summed(comm, size);
  SUCCEEDS(lanecastCommDestroy(comm));
  EXPECT(children(0) == 0);
  config.algorithm = NULL;
  SUCCEEDS(lanecastCommInitMPI(&comm, NULL, &config));
  EXPECT(children(0) == processes - 1);
  sum_by_mpi(size);
  blocking(comm, rank, size);
  sum_by_mpi(size);
  started(comm, rank, size);
  refused(comm);
  SUCCEEDS(lanecastCommSplit(comm, 0, -rank, &child));
  EXPECT(children(0) == processes - 1);
  SUCCEEDS(lanecastCommDestroy(comm));
  killed(child, size - 1 - rank);
  SUCCEEDS(lanecastCommDestroy(child));
  EXPECT(children(0) == 0);
  sum_by_mpi(size);
}

/* The variable is for communicators of the whole job. */
static void by_variable(int size, const char* python) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.python = python;
  lanecastComm_t all = NULL, some = NULL;
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  SUCCEEDS(lanecastCommInitMPI(&some, &half, &config));
  EXPECT(children(0) == 0);
  SUCCEEDS(lanecastCommInitMPI(&all, NULL, &config));
  EXPECT(children(0) == 1);
  summed(all, size);
  SUCCEEDS(lanecastCommDestroy(all));
  SUCCEEDS(lanecastCommDestroy(some));
  EXPECT(children(0) == 0);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  int size = 0, threads = 0;
  EXPECT(argc == 3);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads); /* for started calls */
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  by_variable(size, argv[2]);
  whole_job(size, atoi(argv[1]), argv[2]);
  MPI_Finalize();
  if (failures == 0) puts("as it should be");
  return failures != 0;
}
