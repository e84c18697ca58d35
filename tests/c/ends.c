/* SPDX-License-Identifier: Apache-2.0 */
/* Under mpiexec: the process ends, and MPI with it, while threads wait in calls on communicators of their own. Those of
   other communicators are destroyed even later. */
#define _DEFAULT_SOURCE
#include <lanecast/lanecast.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kComms = 24 };
static lanecastComm_t comms[kComms];
static int rank, size;

static int has_thread(intptr_t k) { return k % size == rank; }

static void* wait_for_nothing(void* k) {
  double never;
  const lanecastComm_t comm = comms[(intptr_t)k];
  if (lanecastRecv(&never, 1, lanecastFloat64, (rank + 1) % size, 0, comm) == lanecastSuccess) abort();
  fprintf(stderr, "%s\n", lanecastGetLastError(comm));
  return NULL;
}

static void destroy_others(void) {
  for (intptr_t k = 0; k < kComms; ++k)
    if (!has_thread(k)) lanecastCommDestroy(comms[k]);
}

int main(void) {
  atexit(destroy_others); /* before MPI's end is registered, so behind it */
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.transports = "mpi";
  lanecastComm_t world;
  if (lanecastCommInitMPI(&world, NULL, &config) != lanecastSuccess) return 1;
  lanecastCommUserRank(world, &rank);
  lanecastCommCount(world, &size);
  for (intptr_t k = 0; k < kComms; ++k) {
    if (lanecastCommSplit(world, 0, 0, &comms[k]) != lanecastSuccess) return 2;
    pthread_t thread;
    if (!has_thread(k)) continue;
    if (pthread_create(&thread, NULL, wait_for_nothing, (void*)k) != 0) return 3;
    pthread_detach(thread);
  }
  usleep(200000);
  printf("as it should be\n");
  return 0;
}
