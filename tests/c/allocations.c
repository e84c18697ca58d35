/* SPDX-License-Identifier: Apache-2.0
 * Counts the memory allocations of repeated calls: this program's malloc stands before the system's. Prints the fewest
 * of any ten turns, since a rank that has waited for long looks after its peers, which may allocate. */
#include <lanecast/lanecast.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

void* __libc_malloc(size_t bytes);
static atomic_long allocations;
void* malloc(size_t bytes) {
  atomic_fetch_add(&allocations, 1);
  return __libc_malloc(bytes);
}

enum { kCount = 40000, kCalls = 100 };
static float in[4 * kCount], out[4 * kCount];

int main(int argc, char** argv) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  lanecastComm_t comm;
  int rank;
  config.transports = "shm";
  config.topology = "2x2";
  config.algorithm = argc > 1 ? argv[1] : NULL;
  config.chunks = argc > 2 ? atoi(argv[2]) : 0;
  if (lanecastCommInitMPI(&comm, NULL, &config) || lanecastCommUserRank(comm, &rank)) return EXIT_FAILURE;
  long fewest = -1, before = 0;
  for (int call = -20; call < kCalls; ++call) {
    if (call >= 0 && call % 10 == 0) {
      if (call > 0 && (fewest < 0 || allocations - before < fewest)) fewest = allocations - before;
      before = allocations;
    }
    if (lanecastAllReduce(in, out, kCount, lanecastFloat32, lanecastSum, comm) ||
        lanecastReduceScatter(in, out, kCount, lanecastFloat32, lanecastSum, comm) ||
        lanecastAllGather(in, out, kCount, lanecastFloat32, comm))
      return EXIT_FAILURE;
  }
  printf("%ld\n", fewest);
  return lanecastCommDestroy(comm);
}
