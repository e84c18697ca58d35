/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of ranks with helpers: every one that several processes move, in every way to make it, by every number that is
 * tried; and those that fail. */
#include <lanecast/lanecast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

#define SUCCEEDS(call) EXPECT((call) == lanecastSuccess)

enum { kMostRanks = 8, kCalls = 16 };
enum { kCount = 300007 }; /* of floats: more than what is never tried, and no multiple of anything */

/* How many this process has; kills them by `signal`, unless that is 0. */
static int children(int signal) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  FILE* const file = fopen(path, "r");
  int found = 0, pid = 0;
  while (file && fscanf(file, "%d", &pid) == 1) {
    ++found;
    if (signal != 0) kill(pid, signal);
  }
  if (file) fclose(file);
  return found;
}

static float* floats(size_t count) {
  float* const made = malloc(count * sizeof(float));
  EXPECT(made != NULL);
  return made;
}

static void filled(float* buffer, size_t count, float value) {
  for (size_t k = 0; k < count; ++k) buffer[k] = value + (float)(k % 3);
}

static void expect_all(const float* buffer, size_t count, float value, float of_index) {
  size_t wrong = 0;
  for (size_t k = 0; k < count; ++k) wrong += buffer[k] != value + of_index * (float)(k % 3);
  EXPECT(wrong == 0);
}

static void count_done(lanecastResult_t result, const char* text, void* ctx) {
  EXPECT(result == lanecastSuccess && text != NULL);
  __atomic_add_fetch((int*)ctx, 1, __ATOMIC_RELEASE); /* what the call has written */
}

static void blocking(lanecastComm_t comm, int own, int size) {
  float *share = floats(kCount), *whole = floats((size_t)size * kCount), *vector = floats(kCount);
  size_t counts[kMostRanks];
  const float sum = (float)(size * (size - 1) / 2);
  for (int k = 0; k < size; ++k) counts[k] = (size_t)(k == 0 ? kCount : k);
  for (int turn = 0; turn < kCalls; ++turn) {
    filled(vector, kCount, (float)own);
    SUCCEEDS(lanecastAllReduce(vector, vector, kCount, lanecastFloat32, lanecastSum, comm));
    expect_all(vector, kCount, sum, (float)size);
    filled(share, kCount, (float)own);
    SUCCEEDS(lanecastAllGather(share, whole, kCount, lanecastFloat32, comm));
    for (int k = 0; k < size; ++k) expect_all(whole + (size_t)k * kCount, kCount, (float)k, 1.0F);
    for (int k = 0; k < size; ++k) filled(whole + (size_t)k * kCount, kCount, (float)own);
    SUCCEEDS(lanecastReduceScatter(whole, share, kCount, lanecastFloat32, lanecastSum, comm));
    expect_all(share, kCount, sum, (float)size);
    filled(share, counts[own], (float)own);
    SUCCEEDS(lanecastAllGatherV(share, whole, counts, lanecastFloat32, comm));
    expect_all(whole, kCount, 0.0F, 1.0F);
    if (size > 1) expect_all(whole + kCount, 1, 1.0F, 1.0F);
  }
  free(share);
  free(whole);
  free(vector);
}

static void started(lanecastComm_t comm, int own, int size) {
  float* vectors[3];
  for (int k = 0; k < 3; ++k) vectors[k] = floats(kCount);
  for (int turn = 0; turn < kCalls; ++turn) {
    lanecastWork_t works[3];
    int heard = 0;
    for (int k = 0; k < 3; ++k) {
      filled(vectors[k], kCount, (float)(own + k));
      SUCCEEDS(lanecastAllReduceStart(vectors[k], vectors[k], kCount, lanecastFloat32, lanecastSum, comm, &works[k]));
    }
    char text[256];
    SUCCEEDS(lanecastWaitsFor(works[2], comm, text, sizeof text));
    SUCCEEDS(lanecastOnDone(works[0], count_done, &heard));
    SUCCEEDS(lanecastWait(works[1]));
    for (int done = 0; !done; usleep(100)) SUCCEEDS(lanecastTest(works[2], &done));
    SUCCEEDS(lanecastWait(works[2]));
    SUCCEEDS(lanecastWait(works[0]));
    while (__atomic_load_n(&heard, __ATOMIC_ACQUIRE) == 0) usleep(100);
    for (int k = 0; k < 3; ++k) expect_all(vectors[k], kCount, (float)(size * (size - 1) / 2 + size * k), (float)size);
  }
  for (int k = 0; k < 3; ++k) free(vectors[k]);
}

static void refused(lanecastComm_t comm) {
  float* const vector = floats(kCount);
  filled(vector, kCount, 0.0F);
  for (int turn = 0; turn < kCalls; ++turn)
    EXPECT(lanecastAllReduce(vector, vector, kCount, lanecastFloat32, lanecastBand, comm) == lanecastUsageError);
  SUCCEEDS(lanecastAllReduce(vector, vector, kCount, lanecastFloat32, lanecastSum, comm));
  free(vector);
}

/* Calls of a size that has not been tried yet fail on all ranks once those of rank 0 are gone, and say why. */
static void killed(lanecastComm_t comm, int own) {
  float* const vector = floats(2 * kCount);
  filled(vector, 2 * kCount, 0.0F);
  if (own == 0) children(SIGKILL);
  lanecastResult_t result = lanecastSuccess;
  for (int turn = 0; turn < kCalls && result == lanecastSuccess; ++turn)
    result = lanecastAllReduce(vector, vector, 2 * kCount, lanecastFloat32, lanecastSum, comm);
  EXPECT(result == lanecastTransportError);
  /* Its leader finds that it has ended, unless that of a helper comes first which has lost it as a peer. */
  EXPECT(strstr(lanecastGetLastError(comm), "its helper ") != NULL);
  EXPECT(lanecastAllReduce(vector, vector, 2 * kCount, lanecastFloat32, lanecastSum, comm) == lanecastTransportError);
  free(vector);
}
