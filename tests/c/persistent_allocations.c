/* SPDX-License-Identifier: Apache-2.0
 * Counts the memory allocations of a persistent call's runs: this program's malloc stands before the system's. Prints
 * how many runs allocated nothing, in any thread of the process, and how many there were. */
#include <lanecast/lanecast.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void* __libc_malloc(size_t bytes);
static atomic_long allocations;
void* malloc(size_t bytes) {
  atomic_fetch_add(&allocations, 1);
  return __libc_malloc(bytes);
}

enum { kMost = 40000, kRuns = 200 };
static float in[kMost], out[kMost];

int main(int argc, char** argv) {
  const int starts = argc > 1 && strcmp(argv[1], "start") == 0;
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  lanecastCall_t call = {lanecastCollAllReduce, in, out, 0, NULL, lanecastFloat32, lanecastSum, 0, NULL};
  lanecastComm_t comm;
  lanecastPersistent_t persistent;
  config.transports = "shm";
  call.count = argc > 2 ? (size_t)atoi(argv[2]) : kMost;
  if (lanecastCommInitMPI(&comm, NULL, &config) || lanecastPersistentInit(&call, comm, &persistent))
    return EXIT_FAILURE;
  int quiet = 0;
  for (int run = -10; run < kRuns; ++run) {
    const long before = allocations;
    if (starts ? lanecastPersistentStart(persistent) || lanecastPersistentWait(persistent)
               : lanecastPersistentRun(persistent))
      return EXIT_FAILURE;
    if (run >= 0 && allocations == before) ++quiet;
  }
  printf("%d %d\n", quiet, kRuns);
  return lanecastPersistentFree(persistent) || lanecastCommDestroy(comm);
}
