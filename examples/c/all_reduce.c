/* SPDX-License-Identifier: Apache-2.0
 * Sums a vector over all ranks of a job, checks the result and prints the time. Needs no mpi.h: the library finds the
 * MPI of the launcher by itself. README.md has the command lines. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <lanecast/lanecast.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS 20

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(lanecastResult_t result, const char* text) {
  if (result == lanecastSuccess) return;
  fprintf(stderr, "%s: %s\n", lanecastGetErrorString(result), text);
  exit(EXIT_FAILURE);
}

int main(int argc, char** argv) {
  size_t count = (size_t)1 << 20;
  if (argc > 1) {
    char* end = argv[1];
    const long long given = strtoll(argv[1], &end, 10);
    if (*end != '\0' || given < 1) {
      fprintf(stderr, "elements: expected a whole number such as 1048576, got %s\n", argv[1]);
      return EXIT_FAILURE;
    }
    count = (size_t)given;
  }

  lanecastError_t error;
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  lanecastComm_t comm;
  check(lanecastCommInitMPI(&comm, NULL, &config), error.text);
  int rank, size;
  check(lanecastCommUserRank(comm, &rank), lanecastGetLastError(comm));
  check(lanecastCommCount(comm, &size), lanecastGetLastError(comm));

  float* in = malloc((count + 1) * sizeof *in);
  float* out = malloc((count + 1) * sizeof *out);
  if (in == NULL || out == NULL) {
    fprintf(stderr, "rank %d: no memory for %zu elements\n", rank, count);
    return EXIT_FAILURE;
  }
  for (size_t i = 0; i < count; ++i) in[i] = (float)((size_t)rank * 1000 + i % 1000);

  double fastest_s = 1e9;
  for (int call = 0; call < CALLS; ++call) {
    const double begin_s = now_s();
    check(lanecastAllReduce(in, out, count, lanecastFloat32, lanecastSum, comm), lanecastGetLastError(comm));
    const double took_s = now_s() - begin_s;
    if (took_s < fastest_s) fastest_s = took_s;
  }

  /* Small whole numbers are exact in float32, so the sum is too, whatever its order. */
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i)
    wrong += out[i] != (float)((size_t)size * (i % 1000) + 1000 * (size_t)size * ((size_t)size - 1) / 2);
  if (wrong > 0)
    fprintf(stderr, "rank %d: %zu of %zu elements are wrong\n", rank, wrong, count);
  else if (rank == 0)
    printf("all-reduce of %zu floats over %d rank%s: %.1f us, correct\n", count, size, size == 1 ? "" : "s",
           1e6 * fastest_s);

  check(lanecastCommDestroy(comm), "destroying the communicator");
  free(in);
  free(out);
  return wrong > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
