/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks under mpiexec give what is no communicator of one group of ranks. Errors of MPI would end the job. */
#include <lanecast/lanecast.h>
#include <mpi.h>
#include <stdint.h>
#include <string.h>

#include "expect.h"

static void expect_refusal(const void* given, const char* words) {
  lanecastError_t error;
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  config.timeout_s = 20.0;
  lanecastComm_t comm;
  EXPECT(lanecastCommInitMPI(&comm, given, &config) == lanecastUsageError && comm == NULL);
  if (strstr(error.text, words) != NULL) return;
  fprintf(stderr, "rank %d expected '%s' in '%s'\n", rank, words, error.text);
  ++failures;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm world = MPI_COMM_WORLD, made, between, merged, one;
  MPI_Comm_rank(world, &rank);

  MPI_Comm_dup(world, &made);
  MPI_Comm copy = made;
  expect_refusal((const void*)(uintptr_t)made, "there is no MPI communicator at the address given");
  MPI_Comm_free(&made);
  expect_refusal(&made, "is MPI_COMM_NULL: it has been freed");
  expect_refusal(&copy, "MPI does not know the communicator (");
  made = (MPI_Comm)0;
  expect_refusal(&made, "is MPI_COMM_NULL");
  expect_refusal((const void*)(uintptr_t)MPI_COMM_WORLD, "and not the MPI_Comm itself");

  MPI_Comm_split(world, rank, 0, &one);
  MPI_Intercomm_create(one, 0, world, 1 - rank, 0, &between);
  expect_refusal(&between, "is an intercommunicator");
  MPI_Intercomm_merge(between, rank, &merged);

  lanecastComm_t comm;
  int size = 0;
  EXPECT(lanecastCommInitMPI(&comm, &merged, NULL) == lanecastSuccess);
  EXPECT(lanecastCommCount(comm, &size) == lanecastSuccess && size == 2);
  float share = (float)rank + 1, sum = 0;
  EXPECT(lanecastAllReduce(&share, &sum, 1, lanecastFloat32, lanecastSum, comm) == lanecastSuccess && sum == 3);
  lanecastCommDestroy(comm);

  MPI_Errhandler handler;
  MPI_Comm_get_errhandler(world, &handler);
  EXPECT(handler == MPI_ERRORS_ARE_FATAL); /* as before */
  MPI_Barrier(world);
  MPI_Finalize();
  expect_refusal(&world, "MPI has ended in this process");
  if (failures == 0) puts("as it should be");
  return failures;
}
