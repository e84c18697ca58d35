/* SPDX-License-Identifier: Apache-2.0
 * Calls every function of the C interface; test_c_interface.py runs it on several ranks. Prints what went wrong. */
#define _POSIX_C_SOURCE 200809L
#include <lanecast/lanecast.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                              \
    }                                                                          \
  } while (0)
#define SUCCEEDS(call)                                                                                             \
  do {                                                                                                             \
    const lanecastResult_t r_ = (call);                                                                            \
    if (r_ != lanecastSuccess) {                                                                                   \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, lanecastGetErrorString(r_), last_error()); \
      ++failures;                                                                                                  \
    }                                                                                                              \
  } while (0)

enum { kCount = 5 };
static int rank, size;
static lanecastComm_t comm;
static const char* last_error(void) { return lanecastGetLastError(comm); }

/* Unique per rank and element, and small enough for exact sums. */
static int32_t value(int r, size_t i) { return 1000 * r + (int32_t)i; }
static int32_t sum_at(size_t i) { return 500 * size * (size - 1) + size * (int32_t)i; }

static void blocking(void) {
  int32_t* whole = malloc((size_t)size * kCount * sizeof *whole);
  int32_t* result = malloc((size_t)size * kCount * sizeof *result);
  int32_t mine[kCount], sums[kCount];
  for (size_t i = 0; i < kCount; ++i) mine[i] = value(rank, i);
  SUCCEEDS(lanecastAllGather(mine, whole, kCount, lanecastInt32, comm));
  for (int r = 0; r < size; ++r)
    for (size_t i = 0; i < kCount; ++i) EXPECT(whole[(size_t)r * kCount + i] == value(r, i));

  for (size_t i = 0; i < (size_t)size * kCount; ++i) whole[i] = value(rank, i);
  SUCCEEDS(lanecastReduceScatter(whole, sums, kCount, lanecastInt32, lanecastSum, comm));
  for (size_t i = 0; i < kCount; ++i) EXPECT(sums[i] == sum_at((size_t)rank * kCount + i));
  SUCCEEDS(lanecastAllReduce(whole, result, (size_t)size * kCount, lanecastInt32, lanecastSum, comm));
  SUCCEEDS(lanecastAllReduce(whole, whole, (size_t)size * kCount, lanecastInt32, lanecastMax, comm));
  for (size_t i = 0; i < (size_t)size * kCount; ++i) EXPECT(result[i] == sum_at(i) && whole[i] == value(size - 1, i));
  SUCCEEDS(lanecastAllReduce(NULL, NULL, 0, lanecastFloat64, lanecastAvg, comm));
  free(result);
  free(whole);
}

/* Rank r has r elements, so rank 0 has none. */
static void uneven(void) {
  const size_t total = (size_t)size * (size_t)(size - 1) / 2;
  const size_t before = (size_t)rank * (size_t)(rank - 1) / 2;
  size_t* counts = malloc((size_t)size * sizeof *counts);
  for (int r = 0; r < size; ++r) counts[r] = (size_t)r;
  int32_t* whole = malloc((total + 1) * sizeof *whole);
  int32_t* sums = malloc((size_t)(rank + 1) * sizeof *sums);
  for (size_t i = 0; i < (size_t)rank; ++i) whole[before + i] = value(rank, i);
  SUCCEEDS(lanecastAllGatherV(rank ? whole + before : NULL, whole, counts, lanecastInt32, comm));
  for (size_t r = 0, at = 0; r < (size_t)size; ++r)
    for (size_t i = 0; i < r; ++i, ++at) EXPECT(whole[at] == value((int)r, i));
  for (size_t i = 0; i < total; ++i) whole[i] = value(rank, i);
  lanecastWork_t works[2];
  SUCCEEDS(lanecastReduceScatterV(whole, sums, counts, lanecastInt32, lanecastSum, comm));
  for (size_t i = 0; i < (size_t)rank; ++i) EXPECT(sums[i] == sum_at(before + i));
  SUCCEEDS(lanecastReduceScatterVStart(whole, sums, counts, lanecastInt32, lanecastMin, comm, &works[0]));
  for (int r = 0; r < size; ++r) counts[r] += 100; /* they have been read */
  SUCCEEDS(lanecastWait(works[0]));
  for (size_t i = 0; i < (size_t)rank; ++i) EXPECT(sums[i] == value(0, before + i));
  for (int r = 0; r < size; ++r) counts[r] -= 100;
  int32_t* gathered = malloc((total + 1) * sizeof *gathered);
  SUCCEEDS(lanecastAllGatherVStart(sums, gathered, counts, lanecastInt32, comm, &works[1]));
  SUCCEEDS(lanecastWait(works[1]));
  for (size_t i = 0; i < total; ++i) EXPECT(gathered[i] == value(0, i));
  free(gathered);
  free(sums);
  free(whole);
  free(counts);
}

static void started(void) {
  float in[kCount], out[kCount], mean[kCount];
  float* whole = malloc((size_t)size * kCount * sizeof *whole);
  for (int i = 0; i < kCount; ++i) in[i] = (float)value(rank, (size_t)i);
  lanecastWork_t works[3];
  SUCCEEDS(lanecastAllReduceStart(in, mean, kCount, lanecastFloat32, lanecastAvg, comm, &works[0]));
  SUCCEEDS(lanecastAllGatherStart(in, whole, kCount, lanecastFloat32, comm, &works[1]));
  int done = 0;
  while (!done) SUCCEEDS(lanecastTest(works[1], &done));
  SUCCEEDS(lanecastWait(works[1]));
  SUCCEEDS(lanecastReduceScatterStart(whole, out, kCount, lanecastFloat32, lanecastSum, comm, &works[2]));
  SUCCEEDS(lanecastWait(works[2]));
  SUCCEEDS(lanecastWait(works[0])); /* any order */
  for (int i = 0; i < kCount; ++i) {
    EXPECT(mean[i] == (float)(500 * (size - 1) + i));
    EXPECT(out[i] == (float)(size * value(rank, (size_t)i)));
  }
  free(whole);
}

/* Around the ring, in a batch whose order would deadlock if one waited for the other; then from the first to the last.
 */
static void messages(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int32_t out[kCount], in[kCount] = {0};
  for (size_t i = 0; i < kCount; ++i) out[i] = value(rank, i);
  const lanecastMessage_t both[] = {{NULL, in, kCount, lanecastInt32, before, 7},
                                    {out, NULL, kCount, lanecastInt32, next, 7}};
  SUCCEEDS(lanecastBatch(both, size > 1 ? 2 : 0, comm));
  for (size_t i = 0; size > 1 && i < kCount; ++i) EXPECT(in[i] == value(before, i));
  memset(in, 0, sizeof in);
  lanecastWork_t work, barrier;
  SUCCEEDS(lanecastBatchStart(both, size > 1 ? 2 : 0, comm, &work));
  SUCCEEDS(lanecastBarrierStart(comm, &barrier));
  SUCCEEDS(lanecastWait(work));
  SUCCEEDS(lanecastWait(barrier));
  for (size_t i = 0; size > 1 && i < kCount; ++i) EXPECT(in[i] == value(before, i));
  if (size > 1 && rank == 0) {
    SUCCEEDS(lanecastSend(out, kCount, lanecastInt32, size - 1, 0, comm));
    SUCCEEDS(lanecastSend(NULL, 0, lanecastInt32, size - 1, 1, comm));
  }
  if (size > 1 && rank == size - 1) {
    SUCCEEDS(lanecastRecv(in, kCount, lanecastInt32, 0, 0, comm));
    SUCCEEDS(lanecastRecv(NULL, 0, lanecastInt32, 0, 1, comm));
    for (size_t i = 0; i < kCount; ++i) EXPECT(in[i] == value(0, i));
  }
  if (size > 1 && rank < 2) { /* a receive that waits until there is something to receive */
    int arrived = 0;
    if (rank == 0) SUCCEEDS(lanecastSend(out, kCount, lanecastInt32, 1, 6, comm));
    while (rank == 1 && !arrived) SUCCEEDS(lanecastProbe(0, 6, comm, &arrived));
    if (rank == 1) SUCCEEDS(lanecastRecv(in, kCount, lanecastInt32, 0, 6, comm));
    SUCCEEDS(lanecastProbe(1 - rank, 6, comm, &arrived));
    EXPECT(arrived == 0);
  }
  SUCCEEDS(lanecastBarrier(comm));
}

/* To or from the last rank, then everyone to everyone, also with counts of which each rank knows its own. */
static void rooted(void) {
  const int root = size - 1;
  const size_t n = kCount, total = (size_t)size * n;
  int32_t *whole = malloc(total * sizeof *whole), *shares = malloc(total * sizeof *shares), mine[kCount], got[kCount];
  for (size_t i = 0; i < n; ++i) mine[i] = value(rank, i);
  SUCCEEDS(lanecastBroadcast(mine, got, n, lanecastInt32, root, comm));
  for (size_t i = 0; i < n; ++i) EXPECT(got[i] == value(root, i));
  SUCCEEDS(lanecastReduce(mine, got, n, lanecastInt32, lanecastSum, root, comm));
  for (size_t i = 0; i < n; ++i) EXPECT(got[i] == (rank == root ? sum_at(i) : value(root, i)));
  SUCCEEDS(lanecastGather(mine, rank == root ? whole : NULL, n, lanecastInt32, root, comm));
  for (size_t i = 0; rank == root && i < total; ++i) EXPECT(whole[i] == value((int)(i / n), i % n));
  SUCCEEDS(lanecastScatter(rank == root ? whole : NULL, got, n, lanecastInt32, root, comm));
  for (size_t i = 0; i < n; ++i) EXPECT(got[i] == mine[i]);
  for (size_t i = 0; i < total; ++i) whole[i] = value(rank, i);
  SUCCEEDS(lanecastAllToAll(whole, shares, n, lanecastInt32, comm));
  for (size_t i = 0; i < total; ++i) EXPECT(shares[i] == value((int)(i / n), (size_t)rank * n + i % n));

  size_t *counts = malloc((size_t)size * sizeof *counts), *from = malloc((size_t)size * sizeof *from);
  for (int r = 0; r < size; ++r) counts[r] = (size_t)(r % 3);
  SUCCEEDS(lanecastGatherV(mine, shares, counts, lanecastInt32, root, comm));
  for (size_t r = 0, at = 0; rank == root && r < (size_t)size; ++r)
    for (size_t i = 0; i < counts[r]; ++i, ++at) EXPECT(shares[at] == value((int)r, i));
  memset(got, 0, sizeof got);
  SUCCEEDS(lanecastScatterV(shares, got, counts, lanecastInt32, root, comm));
  for (size_t i = 0; i < counts[rank]; ++i) EXPECT(got[i] == mine[i]);
  for (int r = 0; r < size; ++r) from[r] = (size_t)(rank % 3); /* as the others' counts say */
  SUCCEEDS(lanecastAllToAllV(whole, counts, shares, from, lanecastInt32, comm));
  size_t before = 0;
  for (int r = 0; r < rank; ++r) before += counts[r];
  for (size_t r = 0, at = 0; r < (size_t)size; ++r)
    for (size_t i = 0; i < from[r]; ++i, ++at) EXPECT(shares[at] == value((int)r, before + i));

  lanecastCall_t call = {lanecastCollBroadcast, mine, got, kCount, NULL, lanecastInt32, lanecastSum, root, NULL};
  lanecastWork_t work;
  SUCCEEDS(lanecastStart(&call, comm, &work));
  SUCCEEDS(lanecastWait(work));
  for (size_t i = 0; i < n; ++i) EXPECT(got[i] == value(root, i));
  free(from);
  free(counts);
  free(shares);
  free(whole);
}

/* A thread that calls this communicator at the same time is in tests/sanitize. */
static void beside_others(void) {
  int32_t vector[kCount];
  for (size_t i = 0; i < kCount; ++i) vector[i] = value(rank, i);
  lanecastCall_t call = {lanecastCollAllReduce, vector, vector, kCount, NULL, lanecastInt32, lanecastSum, 0, NULL};
  lanecastError_t error;
  SUCCEEDS(lanecastBarrierBesideOthers(0, comm, NULL));
  SUCCEEDS(lanecastRunBesideOthers(&call, 10, comm, &error));
  for (size_t i = 0; i < kCount; ++i) EXPECT(vector[i] == sum_at(i));
  EXPECT(lanecastRunBesideOthers(&call, -1, comm, &error) == lanecastUsageError && strstr(error.text, "timeout_s"));
  EXPECT(lanecastRunBesideOthers(NULL, 0, comm, &error) == lanecastUsageError && strstr(error.text, "call"));
  EXPECT(lanecastRunBesideOthers(&call, 0, NULL, NULL) == lanecastUsageError);
  EXPECT(lanecastBarrierBesideOthers(0, NULL, NULL) == lanecastUsageError);
  EXPECT(*last_error() == '\0'); /* it is of one thread at a time */

  lanecastComm_t late;
  SUCCEEDS(lanecastCommSplit(comm, 0, rank, &late));
  if (size > 1 && rank == 0) {
    EXPECT(lanecastRunBesideOthers(&call, 0.1, late, &error) == lanecastTimeoutError && strstr(error.text, "rank 1"));
  }
  SUCCEEDS(lanecastBarrier(comm));
  SUCCEEDS(lanecastCommDestroy(late));
}

static void persistent(void) {
  int32_t vector[kCount];
  const lanecastCall_t call = {lanecastCollAllReduce, vector,      vector, kCount, NULL,
                               lanecastInt32,         lanecastSum, 0,      NULL};
  lanecastPersistent_t bound;
  SUCCEEDS(lanecastPersistentInit(&call, comm, &bound));
  SUCCEEDS(lanecastPersistentWait(bound)); /* nothing was started */
  for (int turn = 0; turn < 4; ++turn) {
    for (size_t i = 0; i < kCount; ++i) vector[i] = value(rank, i) + turn;
    if (turn % 2) {
      SUCCEEDS(lanecastPersistentRun(bound));
    } else {
      SUCCEEDS(lanecastPersistentStart(bound));
      SUCCEEDS(lanecastPersistentWait(bound));
    }
    for (size_t i = 0; i < kCount; ++i) EXPECT(vector[i] == sum_at(i) + size * turn);
  }
  SUCCEEDS(lanecastPersistentFree(bound));
}

/* An all-reduce as a reduce-scatter and an all-gather, and a shift to the right, which no collective is. */
static void compositions(void) {
  int32_t from[kCount], to[kCount], again[kCount];
  int* everyone = malloc((size_t)size * sizeof *everyone);
  for (int r = 0; r < size; ++r) everyone[r] = r;
  const lanecastRanks_t all = {everyone, (size_t)size};
  lanecastComposition_t sum;
  SUCCEEDS(lanecastCompositionOf(&sum, lanecastCollAllReduce, size, 0, NULL));
  for (int r = 0; r < size; ++r) {
    const lanecastBlock_t share = {0, r, size};
    SUCCEEDS(lanecastComposeReduce(sum, all, r, &share, 1, lanecastSum, NULL));
  }
  SUCCEEDS(lanecastComposeFence(sum));
  for (int r = 0; r < size; ++r) {
    const lanecastBlock_t share = {0, r, size};
    SUCCEEDS(lanecastComposeMulticast(sum, r, all, &share, 1, NULL));
  }
  const size_t count = kCount;
  lanecastKnobs_t knobs = LANECAST_KNOBS_INITIALIZER;
  knobs.hierarchy = &size;
  knobs.levels = 1;
  knobs.ring = size;
  knobs.chunks = 3;
  lanecastPersistent_t bound;
  SUCCEEDS(lanecastCompile(sum, from, to, &count, lanecastInt32, &knobs, comm, &bound));
  for (size_t i = 0; i < kCount; ++i) from[i] = value(rank, i);
  SUCCEEDS(lanecastPersistentRun(bound));
  SUCCEEDS(lanecastPersistentRebind(bound, from, again));
  SUCCEEDS(lanecastPersistentRun(bound));
  for (size_t i = 0; i < kCount; ++i) EXPECT(to[i] == sum_at(i) && again[i] == to[i]);
  SUCCEEDS(lanecastPersistentFree(bound));
  EXPECT(lanecastPersistentRebind(NULL, from, to) == lanecastUsageError);

  lanecastParts_t* brings = malloc(2 * (size_t)size * sizeof *brings);
  int* left = malloc((size_t)size * sizeof *left);
  size_t* counts = malloc((size_t)size * sizeof *counts);
  for (int r = 0; r < size; ++r) {
    left[r] = (r + size - 1) % size;
    counts[r] = kCount;
    brings[r] = (lanecastParts_t){&everyone[r], 1};
    brings[size + r] = (lanecastParts_t){&left[r], 1};
  }
  lanecastComposition_t shift;
  SUCCEEDS(lanecastCompositionCreate(&shift, size, brings, brings + size, NULL));
  for (int r = 0; r < size; ++r) {
    const int right = (r + 1) % size;
    const lanecastRanks_t leaf = {&right, 1};
    const lanecastBlock_t whole = {r, 0, 1};
    SUCCEEDS(lanecastComposeMulticast(shift, r, leaf, &whole, 1, NULL));
  }
  SUCCEEDS(lanecastCompile(shift, from, to, counts, lanecastInt32, NULL, comm, &bound));
  SUCCEEDS(lanecastPersistentStart(bound));
  SUCCEEDS(lanecastPersistentWait(bound));
  for (size_t i = 0; i < kCount; ++i) EXPECT(to[i] == value(left[rank], i));
  SUCCEEDS(lanecastPersistentFree(bound));

  lanecastError_t error = {""};
  const lanecastBlock_t nothing = {size, 0, 1};
  EXPECT(lanecastComposeMulticast(shift, 0, all, &nothing, 1, &error) == lanecastUsageError);
  EXPECT(strstr(error.text, "there is no part") != NULL);
  EXPECT(lanecastComposeReduce(shift, all, size, &nothing, 1, lanecastSum, &error) == lanecastUsageError);
  EXPECT(strstr(error.text, "root: rank") != NULL && lanecastComposeFence(NULL) == lanecastUsageError);
  EXPECT(lanecastCompositionCreate(&shift, 0, brings, brings, &error) == lanecastUsageError);
  EXPECT(lanecastCompile(NULL, from, to, counts, lanecastInt32, NULL, comm, &bound) == lanecastUsageError);
  knobs.ring = size + 1;
  EXPECT(lanecastCompile(sum, from, to, &count, lanecastInt32, &knobs, comm, &bound) == lanecastUsageError);
  EXPECT(strstr(last_error(), "ring") != NULL);
  SUCCEEDS(lanecastCompositionFree(shift));
  SUCCEEDS(lanecastCompositionFree(sum));
  SUCCEEDS(lanecastCompositionFree(NULL));
  free(brings);
  free(left);
  free(counts);
  free(everyone);
}

static void explanations(void) {
  const lanecastCall_t call = {.collective = lanecastCollAllReduce, .count = 1 << 20, .datatype = lanecastFloat32};
  char text[4096], cut[8];
  size_t length = 0, again = 0;
  SUCCEEDS(lanecastExplain(&call, comm, text, sizeof text, &length));
  EXPECT(strstr(text, "all_reduce of 4194304 bytes: ") == text && strstr(text, "\n  ring") && strlen(text) > 40);
  EXPECT(length >= strlen(text));
  SUCCEEDS(lanecastExplain(&call, comm, cut, sizeof cut, NULL));
  EXPECT(strcmp(cut, "all_red") == 0);
  SUCCEEDS(lanecastExplain(&call, comm, NULL, 0, &again));
  EXPECT(again == length);
  EXPECT(lanecastExplain(NULL, comm, text, sizeof text, NULL) == lanecastUsageError);
  EXPECT(lanecastExplain(&call, comm, NULL, 1, NULL) == lanecastUsageError && strstr(last_error(), "text: null"));
}

static void splits(void) {
  lanecastComm_t none = comm, odd_even, reversed;
  SUCCEEDS(lanecastCommSplit(comm, -1, 0, &none));
  EXPECT(none == NULL);
  SUCCEEDS(lanecastCommSplit(comm, 0, -rank, &reversed));
  SUCCEEDS(lanecastCommSplit(comm, rank % 2, rank, &odd_even));
  int there = -1, members = -1;
  SUCCEEDS(lanecastCommUserRank(reversed, &there));
  EXPECT(there == size - 1 - rank);
  SUCCEEDS(lanecastCommCount(odd_even, &members));
  EXPECT(members == (size + (rank % 2 == 0)) / 2);
  int64_t ones = 1;
  SUCCEEDS(lanecastAllReduce(&ones, &ones, 1, lanecastInt64, lanecastSum, odd_even));
  EXPECT(ones == members);
  SUCCEEDS(lanecastCommDestroy(reversed));
  SUCCEEDS(lanecastCommDestroy(odd_even));
}

/* Every refusal names the rank and the argument, and leaves the communicator usable. */
static void refuses(lanecastResult_t result, const char* argument) {
  char who[32];
  snprintf(who, sizeof who, "rank %d: ", rank);
  if (result == lanecastUsageError && strstr(last_error(), who) && strstr(last_error(), argument)) return;
  fprintf(stderr, "result %d instead of a refusal of %s: %s\n", (int)result, argument, last_error());
  ++failures;
}

static void misuse(void) {
  float x[4] = {1, 2, 3, 4};
  size_t huge[64];
  lanecastWork_t work = NULL;
  for (int r = 0; r < 64; ++r) huge[r] = r == rank ? 1 : SIZE_MAX / 2 + 1; /* two of them add up to nothing */
  refuses(lanecastAllReduce(x, x + 1, 3, lanecastFloat32, lanecastSum, comm), "overlap");
  refuses(lanecastAllReduce(NULL, x, 4, lanecastFloat32, lanecastSum, comm), "input");
  refuses(lanecastAllReduce(x, NULL, 4, lanecastFloat32, lanecastSum, comm), "output");
  refuses(lanecastAllReduce(x, x, 4, lanecastFloat32, lanecastBxor, comm), "bxor");
  refuses(lanecastAllReduce(x, x, 4, lanecastInt32, lanecastAvg, comm), "avg");
  refuses(lanecastAllReduce(x, x, 4, (lanecastDataType_t)14, lanecastSum, comm), "datatype");
  refuses(lanecastAllReduce(x, x, 4, (lanecastDataType_t)-1, lanecastSum, comm), "datatype");
  refuses(lanecastAllReduce(x, x, 4, lanecastFloat32, (lanecastRedOp_t)8, comm), "op");
  lanecastCall_t whole = {lanecastCollAllReduce, x, x, 4, huge, lanecastFloat32, lanecastSum, 0, NULL};
  refuses(lanecastStart(&whole, comm, &work), "counts: there are no shares");
  whole.counts = NULL;
  whole.recvcounts = huge;
  refuses(lanecastStart(&whole, comm, &work), "recvcounts");
  refuses(lanecastAllReduce(x, x, SIZE_MAX / 2, lanecastFloat32, lanecastSum, comm), "count");
  refuses(lanecastAllGatherV(x, x, NULL, lanecastFloat32, comm), "counts");
  if (size > 1) refuses(lanecastReduceScatterV(x, x, huge, lanecastFloat32, lanecastSum, comm), "count");
  refuses(lanecastAllReduceStart(x, x, 4, lanecastFloat32, lanecastSum, comm, NULL), "work");
  refuses(lanecastAllReduceStart(x, x + 1, 3, lanecastFloat32, lanecastSum, comm, &work), "overlap");
  EXPECT(work == NULL);
  refuses(lanecastCommSplit(comm, 0, 0, NULL), "newcomm");
  const lanecastMessage_t neither = {NULL, NULL, 1, lanecastFloat32, 0, 0}, both = {x, x, 1, lanecastFloat32, 0, 0};
  refuses(lanecastBatch(&neither, 1, comm), "messages[0]");
  refuses(lanecastBatch(&both, 1, comm), "messages[0]");
  refuses(lanecastBatch(NULL, 1, comm), "messages");
  refuses(lanecastBatchStart(NULL, 0, comm, NULL), "work");
  refuses(lanecastSend(x, 1, lanecastFloat32, rank, 0, comm), "dst");
  refuses(lanecastSend(x, 1, (lanecastDataType_t)14, 0, 0, comm), "datatype");
  refuses(lanecastRecv(x, 1, lanecastFloat32, size, 0, comm), "src");
  refuses(lanecastProbe(size, 0, comm, &failures), "src");
  if (size > 1) refuses(lanecastProbe((rank + 1) % size, 0, comm, NULL), "arrived");
  if (size > 1) refuses(lanecastRecv(x, 1, lanecastFloat32, (rank + 1) % size, -1, comm), "tag");
  if (size > 1) refuses(lanecastRecv(NULL, 1, lanecastFloat32, (rank + 1) % size, 0, comm), "buffer");
  refuses(lanecastRecv(x, SIZE_MAX / 4, lanecastFloat32, (rank + 1) % size, 0, comm), "count");
  lanecastCall_t call = {(lanecastCollective_t)99, x, x, 4, NULL, lanecastFloat32, lanecastSum, 0, NULL};
  lanecastPersistent_t bound = NULL;
  refuses(lanecastPersistentInit(&call, comm, &bound), "collective");
  refuses(lanecastPersistentInit(NULL, comm, &bound), "call");
  call.collective = lanecastCollAllReduce;
  refuses(lanecastPersistentInit(&call, comm, NULL), "persistent");
  refuses(lanecastStart(NULL, comm, &work), "call");
  refuses(lanecastBroadcast(x, x, 1, lanecastFloat32, size, comm), "root");
  refuses(lanecastReduce(x, x, 1, lanecastFloat32, lanecastSum, -1, comm), "root");
  refuses(lanecastGatherV(x, x, NULL, lanecastFloat32, 0, comm), "counts");
  refuses(lanecastScatterV(x, x, NULL, lanecastFloat32, 0, comm), "counts");
  refuses(lanecastAllToAllV(x, NULL, x, NULL, lanecastFloat32, comm), "counts");
  refuses(lanecastAllToAllV(x, huge, x, NULL, lanecastFloat32, comm), "recvcounts");
  refuses(lanecastAllToAll(x, x, 1, lanecastFloat32, comm), "in-place");
  EXPECT(bound == NULL && lanecastPersistentRun(NULL) == lanecastUsageError);
  EXPECT(lanecastPersistentStart(NULL) == lanecastUsageError && lanecastPersistentWait(NULL) == lanecastUsageError);
  EXPECT(lanecastPersistentFree(NULL) == lanecastSuccess && lanecastBarrier(NULL) == lanecastUsageError);
  refuses(lanecastCommCount(comm, NULL), "count");
  refuses(lanecastCommUserRank(comm, NULL), "rank");
  EXPECT(lanecastAllReduce(x, x, 4, lanecastFloat32, lanecastSum, NULL) == lanecastUsageError);
  EXPECT(lanecastCommCount(NULL, &failures) == lanecastUsageError);
  EXPECT(lanecastWait(NULL) == lanecastUsageError && lanecastTest(NULL, NULL) == lanecastUsageError);
  EXPECT(strstr(lanecastGetLastError(NULL), "lanecastConfig_t::error") != NULL);
  EXPECT(lanecastGetVersion(NULL) == lanecastUsageError);
  EXPECT(lanecastCommDestroy(NULL) == lanecastSuccess);
  blocking();
}

typedef struct {
  int calls;
  lanecastResult_t result;
  char text[200];
} Heard;

static void hear(lanecastResult_t result, const char* error, void* ctx) {
  Heard* heard = ctx;
  heard->result = result;
  strncat(heard->text, error, sizeof heard->text - 1);
  __atomic_fetch_add(&heard->calls, 1, __ATOMIC_RELEASE);
}

static void await(const Heard* heard) {
  while (__atomic_load_n(&heard->calls, __ATOMIC_ACQUIRE) == 0) continue;
}

/* Who is told of the end of a call, whatever the end. */
static void endings(void) {
  int32_t x[kCount] = {0};
  lanecastWork_t work;
  Heard well = {0, lanecastInternalError, ""};
  SUCCEEDS(lanecastAllReduceStart(x, x, kCount, lanecastInt32, lanecastSum, comm, &work));
  SUCCEEDS(lanecastOnDone(work, hear, &well));
  await(&well);
  EXPECT(well.calls == 1 && well.result == lanecastSuccess && *well.text == '\0');
  SUCCEEDS(lanecastWait(work));
  EXPECT(lanecastOnDone(NULL, hear, &well) == lanecastUsageError);
  refuses(lanecastCommSetTimeout(comm, 0), "timeout_s");
  refuses(lanecastCommAbort(comm, NULL), "reason");
  refuses(lanecastCommWriteTrace(comm, NULL), "directory");

  lanecastComm_t late, aborted;
  SUCCEEDS(lanecastCommSplit(comm, 0, rank, &late));
  SUCCEEDS(lanecastCommSplit(comm, 0, rank, &aborted));
  if (size > 1 && rank == 0) {
    Heard slow = {0, lanecastSuccess, ""};
    const lanecastMessage_t never = {NULL, x, 1, lanecastInt32, 1, 3};
    SUCCEEDS(lanecastCommSetTimeout(late, 0.1));
    SUCCEEDS(lanecastBatchStart(&never, 1, late, &work));
    SUCCEEDS(lanecastOnDone(work, hear, &slow));
    await(&slow);
    EXPECT(slow.result == lanecastTimeoutError && strstr(slow.text, "rank 1") && slow.calls == 1);
    EXPECT(lanecastWait(work) == lanecastTimeoutError);
    SUCCEEDS(lanecastCommAbort(aborted, "rank 0 has had enough"));
  } else if (rank == size - 1) { /* the default is far too long for this test */
    const lanecastResult_t ended = lanecastRecv(x, 1, lanecastInt32, 0, 0, aborted);
    EXPECT(size == 1 || ended == lanecastTransportError);
    EXPECT(size == 1 || strstr(lanecastGetLastError(aborted), "rank 0"));
  }
  SUCCEEDS(lanecastBarrier(comm));
  SUCCEEDS(lanecastCommDestroy(aborted));
  SUCCEEDS(lanecastCommDestroy(late));
}

static int interrupts(lanecastError_t* why, void* ctx) {
  if (!*(const int*)ctx) return 0;
  snprintf(why->text, sizeof why->text, "the user has had enough");
  return 1;
}

static int gather_by_comm(const void* in, void* out, size_t bytes, void* ctx) {
  return lanecastAllGather(in, out, bytes, lanecastUint8, ctx) != lanecastSuccess;
}

/* A function of the program ends waits, and the peers hear why; of a started call it is said what keeps it. */
static void interrupted(void) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  lanecastComm_t meeting, made;
  lanecastWork_t work;
  char text[200] = "before";
  int wanted = 0;
  int32_t x = 1;
  config.interrupt = interrupts;
  config.interrupt_ctx = &wanted;
  SUCCEEDS(lanecastCommSplit(comm, 0, rank, &meeting));
  SUCCEEDS(lanecastCommInitAllGather(&made, rank, size, gather_by_comm, meeting, &config));
  if (size > 1 && rank == 0) {
    const lanecastMessage_t never = {NULL, &x, 1, lanecastInt32, 1, 3};
    SUCCEEDS(lanecastBatchStart(&never, 1, made, &work));
    EXPECT(lanecastWaitsFor(NULL, made, text, sizeof text) == lanecastUsageError);
    EXPECT(lanecastWaitsFor(work, made, NULL, 1) == lanecastUsageError);
    SUCCEEDS(lanecastWaitsFor(work, made, text, sizeof text));
    EXPECT(strstr(text, "rank 1 in recv of 4 bytes from rank 1, tag 3"));
    SUCCEEDS(lanecastWaitsFor(work, made, text, 7));
    EXPECT(strcmp(text, "rank 1") == 0);
    wanted = 1;
    EXPECT(lanecastBarrier(made) == lanecastTransportError);
    EXPECT(strstr(lanecastGetLastError(made), "the user has had enough"));
    EXPECT(lanecastWait(work) == lanecastTransportError);
  }
  SUCCEEDS(lanecastBarrier(comm));
  if (rank == 1) {
    EXPECT(lanecastBarrier(made) == lanecastTransportError);
    EXPECT(strstr(lanecastGetLastError(made), "rank 0: the user has had enough"));
  }
  SUCCEEDS(lanecastBarrier(comm));
  SUCCEEDS(lanecastCommDestroy(made));
  SUCCEEDS(lanecastCommDestroy(meeting));
}

/* A communicator of some of a job's ranks takes of the environment, which describes the job, what a split would. */
static void part_of_job(void) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  lanecastError_t left_aside, error;
  lanecastComm_t half, made;
  const int ranks[] = {rank % 2, rank % 2 + 2}, wrong[] = {7, 1};
  int same = 0;
  int32_t x = 1;
  if (size != 4) return;
  setenv("LANECAST_TOPOLOGY", "2x2:cyclic", 1);
  setenv("LANECAST_ALGORITHM", "hierarchical(ring,direct)", 1);
  SUCCEEDS(lanecastCommSplit(comm, rank % 2, rank, &half));
  SUCCEEDS(lanecastCommCount(half, &same));
  config.job_size = size;
  config.job_ranks = ranks;
  config.left_aside = &left_aside;
  config.error = &error;
  SUCCEEDS(lanecastCommInitAllGather(&made, rank / 2, same, gather_by_comm, half, &config));
  EXPECT((left_aside.text[0] != '\0') == (rank < 2));
  EXPECT(rank >= 2 || strstr(left_aside.text, "LANECAST_ALGORITHM='hierarchical(ring,direct)'"));
  SUCCEEDS(lanecastAllReduce(&x, &x, 1, lanecastInt32, lanecastSum, made));
  EXPECT(x == same);
  SUCCEEDS(lanecastCommDestroy(made));
  config.job_ranks = wrong;
  EXPECT(lanecastCommInitAllGather(&made, rank / 2, same, gather_by_comm, half, &config) == lanecastUsageError);
  EXPECT(strstr(error.text, "job_ranks: 7 does not exist in a job of"));
  config.job_ranks = NULL;
  EXPECT(lanecastCommInitAllGather(&made, rank / 2, same, gather_by_comm, half, &config) == lanecastUsageError);
  EXPECT(strstr(error.text, "job_ranks: null pointer"));
  config.job_size = -1;
  EXPECT(lanecastCommInitAllGather(&made, rank / 2, same, gather_by_comm, half, &config) == lanecastUsageError);
  EXPECT(strstr(error.text, "job_size"));
  unsetenv("LANECAST_TOPOLOGY");
  unsetenv("LANECAST_ALGORITHM");
  SUCCEEDS(lanecastCommDestroy(half));
}

static int gather_alone(const void* in, void* out, size_t bytes, void* ctx) {
  ++*(int*)ctx;
  memcpy(out, in, bytes);
  return 0;
}
static int gather_fails(const void* in, void* out, size_t bytes, void* ctx) {
  (void)in, (void)out, (void)bytes, (void)ctx;
  return 7;
}

/* Ranks in another order than MPI's, found by an all-gather and reached by MPI. */
static void over_mpi(void) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  lanecastComm_t order, made;
  int32_t mine = rank;
  config.mpi = 1;
  config.transports = "mpi";
  SUCCEEDS(lanecastCommSplit(comm, 0, -rank, &order));
  SUCCEEDS(lanecastCommInitAllGather(&made, size - 1 - rank, size, gather_by_comm, order, &config));
  SUCCEEDS(lanecastBroadcast(&mine, &mine, 1, lanecastInt32, 0, made));
  EXPECT(mine == size - 1);
  SUCCEEDS(lanecastCommDestroy(made));
  SUCCEEDS(lanecastCommDestroy(order));
}

static void refuses_to_begin(lanecastConfig_t config, lanecastAllGatherFn gather, const char* words) {
  lanecastError_t error = {""};
  config.error = &error;
  int called = 0;
  lanecastComm_t made = comm;
  const lanecastResult_t result = lanecastCommInitAllGather(&made, 0, 1, gather, &called, &config);
  const lanecastResult_t expected = gather == gather_fails ? lanecastTransportError : lanecastUsageError;
  if (result == expected && made == NULL && strstr(error.text, words)) return;
  fprintf(stderr, "result %d instead of an error with \"%s\": %s\n", (int)result, words, error.text);
  ++failures;
}

static void inits(void) {
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  refuses_to_begin(config, NULL, "all_gather");
  refuses_to_begin(config, gather_fails, "returned 7");
  config.topology = "two nodes";
  refuses_to_begin(config, gather_alone, "topology");
  config.topology = NULL;
  config.transports = "pigeon";
  refuses_to_begin(config, gather_alone, "transports");
  config.transports = NULL;
  config.chunks = -1;
  refuses_to_begin(config, gather_alone, "chunks");
  config.chunks = 0;
  config.timeout_s = -1;
  refuses_to_begin(config, gather_alone, "timeout_s");
  config.timeout_s = 0;
  config.reproducible = 2;
  refuses_to_begin(config, gather_alone, "reproducible: 2");
  config.reproducible = 0;
  setenv("LANECAST_CHUNK", "3", 1);
  refuses_to_begin(config, gather_alone, "LANECAST_CHUNK ");
  unsetenv("LANECAST_CHUNK");

  lanecastComm_t made = NULL;
  int called = 0;
  EXPECT(lanecastCommInitAllGather(NULL, 0, 1, gather_alone, &called, NULL) == lanecastUsageError);
  EXPECT(lanecastCommInitAllGather(&made, 1, 1, gather_alone, &called, NULL) == lanecastUsageError);
  struct {
    lanecastConfig_t known;
    double from_the_future;
  } later;
  memset(&later, 0, sizeof later);
  later.known.size = sizeof later;
  EXPECT(lanecastCommInitAllGather(&made, 0, 1, gather_alone, &called, &later.known) == lanecastSuccess);
  EXPECT(lanecastCommDestroy(made) == lanecastSuccess && called > 0);
  lanecastConfig_t earlier = LANECAST_CONFIG_INITIALIZER; /* what came after `error` was not there to be read */
  earlier.size = offsetof(lanecastConfig_t, reproducible);
  earlier.reproducible = earlier.check_calls = 7;
  EXPECT(lanecastCommInitAllGather(&made, 0, 1, gather_alone, &called, &earlier) == lanecastSuccess);
  EXPECT(lanecastCommDestroy(made) == lanecastSuccess);
  later.from_the_future = 1;
  EXPECT(lanecastCommInitAllGather(&made, 0, 1, gather_alone, &called, &later.known) == lanecastUsageError);
  later.known.size = 8;
  EXPECT(lanecastCommInitAllGather(&made, 0, 1, gather_alone, &called, &later.known) == lanecastUsageError);
}

/* Usage: interface DIRECTORY, where the traces go. */
int main(int argc, char** argv) {
  if (argc != 2) return EXIT_FAILURE;
  lanecastError_t error;
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  config.timeout_s = 30;
  if (lanecastCommInitMPI(&comm, NULL, &config) != lanecastSuccess) {
    fprintf(stderr, "%s\n", error.text);
    return EXIT_FAILURE;
  }
  SUCCEEDS(lanecastCommCount(comm, &size));
  SUCCEEDS(lanecastCommUserRank(comm, &rank));
  EXPECT(*last_error() == '\0');
  int version = 0;
  SUCCEEDS(lanecastGetVersion(&version));
  blocking();
  uneven();
  started();
  messages();
  rooted();
  beside_others();
  persistent();
  compositions();
  splits();
  explanations();
  misuse();
  endings();
  inits();
  over_mpi();
  interrupted();
  part_of_job();
  SUCCEEDS(lanecastCommWriteTrace(comm, argv[1]));
  SUCCEEDS(lanecastCommDestroy(comm));
  if (failures == 0) printf("rank %d of %d: version %d\n", rank, size, version);
  return failures > 0;
}
