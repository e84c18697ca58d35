/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with helpers, made without an MPI: every call that several processes move, in every way to make it, by every
 * number that is tried; children by a split; nothing stays behind. Arguments: ranks, processes of each, a Python. */
#define _GNU_SOURCE
#include <lanecast/lanecast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

#define SUCCEEDS(call) EXPECT((call) == lanecastSuccess)

enum { kMostRanks = 8, kMostBytes = 1 << 16, kCalls = 16 };
enum { kCount = 300007 }; /* of floats: more than what is never tried, and no multiple of anything */

/* An all-gather among processes that have forked: what each says lies in memory of all, turn by turn. */
struct Meeting {
  int own, size, turn;
  struct {
    volatile int turns[kMostRanks];
    char said[2][kMostRanks][kMostBytes];
  }* shared;
};

static int meet(const void* in, void* out, size_t bytes, void* ctx) {
  struct Meeting* const meeting = ctx;
  char (*said)[kMostBytes] = meeting->shared->said[meeting->turn % 2];
  memcpy(said[meeting->own], in, bytes);
  __atomic_store_n(&meeting->shared->turns[meeting->own], ++meeting->turn, __ATOMIC_RELEASE); /* what it has said */
  for (int each = 0; each < meeting->size; ++each) {
    while (__atomic_load_n(&meeting->shared->turns[each], __ATOMIC_ACQUIRE) < meeting->turn) usleep(100);
    memcpy((char*)out + (size_t)each * bytes, said[each], bytes);
  }
  return 0;
}

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

static void one_rank(struct Meeting* meeting, int processes, const char* python) {
  const int size = meeting->size;
  rank = meeting->own;
  lanecastError_t error;
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  config.timeout_s = 60;
  lanecastComm_t comm = NULL, child = NULL;
  config.processes_per_gpu = 65;
  EXPECT(lanecastCommInitAllGather(&comm, rank, size, meet, meeting, &config) == lanecastUsageError);
  EXPECT(strstr(error.text, "processes_per_gpu=65: expected 1 to 64") != NULL);
  EXPECT(lanecastCommInitMPI(&comm, NULL, &config) == lanecastUsageError);
  config.processes_per_gpu = processes;
  config.allow_shared_cores = 1;
  config.python = "/no/such/python";
  EXPECT(lanecastCommInitAllGather(&comm, rank, size, meet, meeting, &config) == lanecastUsageError);
  EXPECT(strstr(error.text, "/no/such/python does not start") != NULL);
  EXPECT(children(0) == 0);
  config.python = "/bin/false";
  EXPECT(lanecastCommInitAllGather(&comm, rank, size, meet, meeting, &config) == lanecastTransportError);
  EXPECT(strstr(error.text, "helper 1: it has ended with status 1 while it started") != NULL);
  EXPECT(children(0) == 0);
  config.python = python;
  SUCCEEDS(lanecastCommInitAllGather(&comm, rank, size, meet, meeting, &config));
  EXPECT(children(0) == processes - 1);
  blocking(comm, rank, size);
  started(comm, rank, size);
  refused(comm);
  SUCCEEDS(lanecastCommSplit(comm, 0, -rank, &child));
  EXPECT(children(0) == processes - 1);
  SUCCEEDS(lanecastCommDestroy(comm));
  blocking(child, size - 1 - rank, size);
  started(child, size - 1 - rank, size);
  killed(child, size - 1 - rank);
  SUCCEEDS(lanecastCommDestroy(child));
  EXPECT(children(0) == 0);
}

int main(int argc, char** argv) {
  EXPECT(argc == 4);
  const int size = atoi(argv[1]), processes = atoi(argv[2]);
  struct Meeting meeting = {0, size, 0, NULL};
  meeting.shared = mmap(NULL, sizeof *meeting.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(meeting.shared != MAP_FAILED);
  for (meeting.own = 0; meeting.own < size; ++meeting.own) {
    if (fork() != 0) continue;
    one_rank(&meeting, processes, argv[3]);
    return failures != 0;
  }
  int status = 0, failed = 0;
  while (wait(&status) > 0) failed |= status;
  if (!failed) printf("%d ranks of %d processes\n", size, processes);
  return failed != 0;
}
