/* SPDX-License-Identifier: Apache-2.0
 * Compositions of GPUs' memory through the C interface, one GPU for each rank; without one over a driver that stands in
 * for NVIDIA's. Usage: gpu_compositions [FOLDER OF KERNELS [FOLDERS OF NVRTC]]. Prints what went wrong. */
#include <lanecast/lanecast.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rank_on_gpu.h"

enum { kMostRanks = 8, kCount = 3001 };

static Address filled(int32_t first) {
  int32_t numbers[kCount];
  Address made;
  for (size_t i = 0; i < kCount; ++i) numbers[i] = first + (int32_t)i;
  EXPECT(!mem_alloc(&made, sizeof numbers) && !to_device(made, numbers, sizeof numbers, NULL) && !drain(NULL));
  return made;
}

/* Of what the stream brings; how many differ from first, first + step, ... */
static size_t wrong_in(Address at, int32_t first, int32_t step, Stream stream) {
  int32_t numbers[kCount];
  size_t wrong = 0;
  EXPECT(!to_host(numbers, at, sizeof numbers, stream) && !drain(stream));
  for (size_t i = 0; i < kCount; ++i) wrong += numbers[i] != first + step * (int32_t)i;
  return wrong;
}

/* ---- Two compositions ---- */

static int everyone[kMostRanks];

/* An all-reduce as a reduce-scatter and an all-gather. */
static lanecastComposition_t sum_of(int ranks) {
  lanecastComposition_t sum;
  const lanecastRanks_t leaves = {everyone, (size_t)ranks};
  SUCCEEDS(lanecastCompositionOf(&sum, lanecastCollAllReduce, ranks, 0, NULL));
  for (int r = 0; r < ranks; ++r) {
    const lanecastBlock_t share = {0, r, ranks};
    SUCCEEDS(lanecastComposeReduce(sum, leaves, r, &share, 1, lanecastSum, NULL));
  }
  SUCCEEDS(lanecastComposeFence(sum));
  for (int r = 0; r < ranks; ++r) {
    const lanecastBlock_t share = {0, r, ranks};
    SUCCEEDS(lanecastComposeMulticast(sum, r, leaves, &share, 1, NULL));
  }
  return sum;
}

/* Rank 0 hands what it has to the others, and ends with nothing itself. */
static lanecastComposition_t handed_out(void) {
  static const int part = 0;
  lanecastParts_t brings[kMostRanks] = {{&part, 1}}, ends[kMostRanks] = {{NULL, 0}};
  lanecastComposition_t made;
  for (int r = 1; r < size; ++r) ends[r] = brings[0];
  SUCCEEDS(lanecastCompositionCreate(&made, size, brings, ends, NULL));
  if (size > 1) {
    const lanecastBlock_t whole = {0, 0, 1};
    const lanecastRanks_t others = {everyone + 1, (size_t)size - 1};
    SUCCEEDS(lanecastComposeMulticast(made, 0, others, &whole, 1, NULL));
  }
  return made;
}

/* ---- What they do ---- */

static const size_t kCounts[] = {kCount};

/* Each call reads what the one before it has written: on one stream, beside two, and freed while it is under way. */
static void runs_and_starts(Stream own) {
  lanecastComposition_t sum = sum_of(size);
  lanecastKnobs_t knobs = LANECAST_KNOBS_INITIALIZER;
  lanecastCompiled_t compiled;
  knobs.hierarchy = &size, knobs.levels = 1, knobs.ring = size, knobs.chunks = 3;
  const Address x = filled(value(rank, 0)), y = filled(0), z = filled(0);
  SUCCEEDS(lanecastCompileOnDevice(sum, pointer(x), pointer(y), kCounts, lanecastInt32, &knobs, rank, comm, &compiled));
  SUCCEEDS(lanecastCompositionFree(sum));
  SUCCEEDS(lanecastCompiledWait(compiled, own)); /* there was no start */
  SUCCEEDS(lanecastCompiledEnqueue(pointer(x), pointer(y), compiled, own));
  EXPECT(wrong_in(y, sum_at(0), size, own) == 0);
  EXPECT(wrong_in(x, value(rank, 0), 1, own) == 0);
  SUCCEEDS(lanecastCompiledStart(pointer(y), pointer(z), compiled, own));
  SUCCEEDS(lanecastCompiledStart(pointer(z), pointer(x), compiled, own));
  SUCCEEDS(lanecastCompiledWait(compiled, NULL));
  SUCCEEDS(lanecastCompiledFree(compiled));
  EXPECT(wrong_in(x, size * size * sum_at(0), size * size * size, NULL) == 0);
  SUCCEEDS(lanecastCommSynchronize(comm));
  EXPECT(!mem_free(x) && !mem_free(y) && !mem_free(z));
}

static void in_place(void) {
  lanecastComposition_t sum = sum_of(size);
  lanecastCompiled_t compiled;
  const Address x = filled(value(rank, 0)), y = filled(0);
  void* const own = pointer(x);
  SUCCEEDS(lanecastCompileOnDevice(sum, own, own, kCounts, lanecastInt32, NULL, -1, comm, &compiled));
  SUCCEEDS(lanecastCompiledEnqueue(own, own, compiled, NULL));
  EXPECT(wrong_in(x, sum_at(0), size, NULL) == 0);
  EXPECT(lanecastCompiledEnqueue(own, pointer(y), compiled, NULL) == lanecastUsageError);
  EXPECT(strstr(lanecastGetLastError(comm), "in place"));
  SUCCEEDS(lanecastCommSynchronize(comm));
  SUCCEEDS(lanecastCompiledFree(compiled));
  SUCCEEDS(lanecastCompositionFree(sum));
  EXPECT(!mem_free(x) && !mem_free(y));
}

/* Where a rank has no parts it passes no buffer. */
static void without_parts(void) {
  lanecastComposition_t made = handed_out();
  lanecastCompiled_t compiled;
  const Address x = filled(rank == 0 ? 7 : -1);
  void *const in = rank == 0 ? pointer(x) : NULL, *const out = rank == 0 ? NULL : pointer(x);
  SUCCEEDS(lanecastCompileOnDevice(made, in, out, kCounts, lanecastInt32, NULL, rank, comm, &compiled));
  SUCCEEDS(lanecastCompiledStart(in, out, compiled, NULL));
  SUCCEEDS(lanecastCompiledWait(compiled, NULL));
  EXPECT(wrong_in(x, 7, 1, NULL) == 0);
  SUCCEEDS(lanecastCommSynchronize(comm));
  SUCCEEDS(lanecastCompiledFree(compiled));
  SUCCEEDS(lanecastCompositionFree(made));
  EXPECT(!mem_free(x));
}

static void of_nothing(void) {
  const size_t none[] = {0};
  lanecastComposition_t sum = sum_of(size);
  lanecastCompiled_t compiled;
  SUCCEEDS(lanecastCompileOnDevice(sum, NULL, NULL, none, lanecastFloat16, NULL, rank, comm, &compiled));
  SUCCEEDS(lanecastCompiledEnqueue(NULL, NULL, compiled, NULL));
  SUCCEEDS(lanecastCommSynchronize(comm));
  SUCCEEDS(lanecastCompiledFree(compiled));
  SUCCEEDS(lanecastCompositionFree(sum));
}

/* ---- What goes wrong ---- */

/* Every refusal names the rank and the argument, and leaves the communicator usable. */
static void refuses(lanecastResult_t result, const char* words) {
  char who[32];
  snprintf(who, sizeof who, "rank %d: ", rank);
  const char* const text = lanecastGetLastError(comm);
  if (result == lanecastUsageError && strstr(text, who) && strstr(text, words)) return;
  fprintf(stderr, "result %d instead of a refusal with \"%s\": %s\n", (int)result, words, text);
  ++failures;
}

static lanecastResult_t compile_by(lanecastComposition_t composition, const lanecastKnobs_t* knobs, void* buffer) {
  lanecastCompiled_t unused;
  return lanecastCompileOnDevice(composition, buffer, buffer, kCounts, lanecastInt32, knobs, rank, comm, &unused);
}

static void misuse(void) {
  lanecastComposition_t sum = sum_of(size), larger = sum_of(size + 1);
  lanecastCompiled_t compiled;
  lanecastKnobs_t knobs = LANECAST_KNOBS_INITIALIZER;
  const Address x = filled(0);
  void* const own = pointer(x);
  const lanecastDataType_t type = lanecastInt32;
  refuses(compile_by(NULL, NULL, own), "composition: null pointer");
  refuses(compile_by(larger, NULL, own), "composition: is for");
  refuses(compile_by(sum, NULL, NULL), "null pointer");
  refuses(compile_by(sum, NULL, (char*)own + 2), "does not begin at a multiple of the 4 bytes");
  knobs.ring = size + 1;
  refuses(compile_by(sum, &knobs, own), "ring");
  knobs.ring = 1, knobs.transports = "mpi";
  refuses(compile_by(sum, &knobs, own), "transports: 'mpi'");
  knobs.size = 0;
  refuses(compile_by(sum, &knobs, own), "knobs");
  refuses(lanecastCompileOnDevice(sum, own, own, NULL, type, NULL, rank, comm, &compiled), "counts: null pointer");
  refuses(lanecastCompileOnDevice(sum, own, own, kCounts, type, NULL, rank, comm, NULL), "compiled: null pointer");
  refuses(lanecastCompileOnDevice(sum, own, own, kCounts, type, NULL, -2, comm, &compiled), "device: -2");
  refuses(lanecastCompileOnDevice(sum, own, own, kCounts, type, NULL, rank + 1, comm, &compiled), "uses GPU");
  refuses(lanecastCompileOnDevice(sum, own, own, kCounts, (lanecastDataType_t)99, NULL, rank, comm, &compiled), "99");
  SUCCEEDS(lanecastCompileOnDevice(sum, own, own, kCounts, type, NULL, rank, comm, &compiled));
  refuses(lanecastCompiledEnqueue(NULL, NULL, compiled, NULL), "null pointer");
  refuses(lanecastCompiledStart(own, NULL, compiled, NULL), "null pointer");
  SUCCEEDS(lanecastCompiledEnqueue(own, own, compiled, NULL));
  SUCCEEDS(lanecastCommSynchronize(comm));
  SUCCEEDS(lanecastCompiledFree(compiled));
  SUCCEEDS(lanecastCompiledFree(NULL));
  EXPECT(lanecastCompileOnDevice(sum, own, own, kCounts, type, NULL, rank, NULL, &compiled) == lanecastUsageError);
  EXPECT(lanecastCompiledEnqueue(own, own, NULL, NULL) == lanecastUsageError);
  EXPECT(lanecastCompiledStart(own, own, NULL, NULL) == lanecastUsageError);
  EXPECT(lanecastCompiledWait(NULL, NULL) == lanecastUsageError);
  SUCCEEDS(lanecastCompositionFree(sum));
  SUCCEEDS(lanecastCompositionFree(larger));
  EXPECT(!mem_free(x));
}

/* The last rank runs another composition: it hears so, and so do its peers. */
static void differs(lanecastConfig_t config) {
  lanecastComm_t apart;
  lanecastCompiled_t compiled;
  lanecastComposition_t made = rank == size - 1 ? handed_out() : sum_of(size);
  const Address x = filled(0), y = filled(0);
  config.timeout_s = 20;
  SUCCEEDS(lanecastCommInitMPI(&apart, NULL, &config));
  EXPECT(lanecastCompileOnDevice(made, pointer(x), pointer(y), kCounts, lanecastInt32, NULL, rank, apart, &compiled) ==
         lanecastSuccess);
  /* A rank that comes late hears of it here. */
  EXPECT(lanecastCompiledEnqueue(pointer(x), pointer(y), compiled, NULL) == lanecastSuccess ||
         strstr(lanecastGetLastError(apart), "rank ") != NULL);
  EXPECT(lanecastCommSynchronize(apart) != lanecastSuccess);
  EXPECT(strstr(lanecastGetLastError(apart), "rank ") != NULL);
  EXPECT(lanecastCompiledFree(compiled) == lanecastSuccess);
  SUCCEEDS(lanecastBarrier(comm));
  EXPECT(lanecastCommDestroy(apart) == lanecastSuccess);
  SUCCEEDS(lanecastCompositionFree(made));
  EXPECT(!mem_free(x) && !mem_free(y));
}

int main(int argc, char** argv) {
  lanecastError_t error = {""};
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  Stream own;
  config.error = &error;
  config.timeout_s = 100;
  config.kernel_cache = argc > 1 ? argv[1] : NULL;
  config.gpu_libraries = argc > 2 ? argv[2] : NULL;
  if (lanecastCommInitMPI(&comm, NULL, &config)) fprintf(stderr, "%s\n", error.text), exit(EXIT_FAILURE);
  SUCCEEDS(lanecastCommUserRank(comm, &rank));
  SUCCEEDS(lanecastCommCount(comm, &size));
  for (int r = 0; r < kMostRanks; ++r) everyone[r] = r;
  open_driver(rank);
  EXPECT(!stream_create(&own, 1, 0));
  runs_and_starts(own);
  in_place();
  without_parts();
  of_nothing();
  misuse();
  if (size > 1) differs(config);
  EXPECT(!stream_destroy(own));
  SUCCEEDS(lanecastCommDestroy(comm));
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
