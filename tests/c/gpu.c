/* SPDX-License-Identifier: Apache-2.0
 * Calls on GPUs through the C interface, one for each rank; without a GPU over a driver that stands in for NVIDIA's.
 * Usage: gpu [FOLDER OF KERNELS]. Prints what went wrong. */
#include <lanecast/lanecast.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "rank_on_gpu.h"

/* ---- Collectives ---- */

enum { kCount = 1003, kLarge = 70001 };

/* What rank r ends with in element i of its output; -1: what was there. */
static int32_t expected(lanecastCollective_t kind, int root, size_t count, size_t i) {
  const int part = (int)(i / count);
  switch (kind) {
    case lanecastCollAllGather:
      return value(part, i % count);
    case lanecastCollReduceScatter:
      return sum_at((size_t)rank * count + i);
    case lanecastCollAllReduce:
      return sum_at(i);
    case lanecastCollBroadcast:
      return value(root, i);
    case lanecastCollReduce:
      return rank == root ? sum_at(i) : -1;
    case lanecastCollGather:
      return rank == root ? value(part, i % count) : -1;
    case lanecastCollScatter:
      return value(root, (size_t)rank * count + i);
    case lanecastCollAllToAll:
      return value(part, (size_t)rank * count + i % count);
  }
  return 0;
}

static int many_in(lanecastCollective_t kind) {
  return kind == lanecastCollReduceScatter || kind == lanecastCollScatter || kind == lanecastCollAllToAll;
}
static int many_out(lanecastCollective_t kind) {
  return kind == lanecastCollAllGather || kind == lanecastCollGather || kind == lanecastCollAllToAll;
}

/* Copies in, call and copy out stand in one stream: no host waits before the end. */
static void collective(lanecastCollective_t kind, size_t count, Stream stream) {
  const int root = size - 1;
  const size_t ins = (many_in(kind) ? (size_t)size : 1) * count, outs = (many_out(kind) ? (size_t)size : 1) * count;
  int32_t *in = malloc(ins * sizeof *in), *out = malloc(outs * sizeof *out);
  Address from, to;
  EXPECT(!mem_alloc(&from, ins * sizeof *in) && !mem_alloc(&to, outs * sizeof *out));
  for (size_t i = 0; i < ins; ++i) in[i] = value(rank, i);
  for (size_t i = 0; i < outs; ++i) out[i] = -1;
  EXPECT(!to_device(from, in, ins * sizeof *in, stream) && !to_device(to, out, outs * sizeof *out, stream));
  const lanecastCall_t call = {kind, pointer(from), pointer(to), count, NULL, lanecastInt32, lanecastSum, root, NULL};
  SUCCEEDS(lanecastEnqueue(&call, rank, stream, comm));
  EXPECT(!to_host(out, to, outs * sizeof *out, stream));
  SUCCEEDS(lanecastCommSynchronize(comm));
  EXPECT(!to_host(in, from, ins * sizeof *in, stream)); /* waits for the one before, to memory that is not pinned */
  EXPECT(!drain(stream));
  size_t wrong = 0;
  for (size_t i = 0; i < outs; ++i) wrong += out[i] != expected(kind, root, count, i);
  for (size_t i = 0; i < ins; ++i) wrong += in[i] != value(rank, i);
  if (wrong) fprintf(stderr, "rank %d: collective %d of %zu: %zu wrong\n", rank, (int)kind, count, wrong), ++failures;
  EXPECT(!mem_free(from) && !mem_free(to));
  free(in);
  free(out);
}

static void collectives(void) {
  Stream own;
  lanecastResult_t met = lanecastInternalError;
  int device = 7;
  SUCCEEDS(lanecastCommGetDevice(comm, &device));
  EXPECT(device == -1);
  SUCCEEDS(lanecastCommSetDevice(comm, rank));
  SUCCEEDS(lanecastCommGetDevice(comm, &device));
  EXPECT(device == rank);
  EXPECT(!stream_create(&own, 1, 0));
  for (int kind = lanecastCollAllGather; kind <= lanecastCollAllToAll; ++kind) {
    collective((lanecastCollective_t)kind, kCount, own);
    collective((lanecastCollective_t)kind, 1, NULL);
  }
  collective(lanecastCollAllReduce, kLarge, own);
  const lanecastCall_t nothing = {lanecastCollAllReduce, NULL, NULL, 0, NULL, lanecastFloat32, lanecastSum, 0, NULL};
  SUCCEEDS(lanecastEnqueue(&nothing, -1, own, comm));
  SUCCEEDS(lanecastCommGetAsyncError(comm, &met));
  EXPECT(met == lanecastSuccess);
  SUCCEEDS(lanecastCommSynchronize(comm));
  EXPECT(!stream_destroy(own));
}

/* ---- Memory that the peers reach ---- */

static void symmetric(lanecastConfig_t config) {
  int32_t numbers[kCount];
  void *in = NULL, *out = NULL;
  lanecastComm_t direct;
  config.algorithm = "peer_direct"; /* takes no other memory */
  SUCCEEDS(lanecastCommInitMPI(&direct, NULL, &config));
  SUCCEEDS(lanecastMemAlloc(&in, sizeof numbers, rank, direct));
  SUCCEEDS(lanecastMemAlloc(&out, sizeof numbers, rank, direct));
  for (size_t i = 0; i < kCount; ++i) numbers[i] = value(rank, i);
  EXPECT(!to_device((Address)(uintptr_t)in, numbers, sizeof numbers, NULL));
  const lanecastCall_t call = {lanecastCollAllReduce, in, out, kCount, NULL, lanecastInt32, lanecastSum, 0, NULL};
  const lanecastResult_t result = lanecastEnqueue(&call, rank, NULL, direct);
  if (result) fprintf(stderr, "peer_direct: %s\n", lanecastGetLastError(direct)), ++failures;
  EXPECT(lanecastCommSynchronize(direct) == lanecastSuccess);
  memset(numbers, 0, sizeof numbers);
  EXPECT(!to_host(numbers, (Address)(uintptr_t)out, sizeof numbers, NULL));
  EXPECT(lanecastCommSynchronize(direct) == lanecastSuccess);
  EXPECT(!drain(NULL));
  for (size_t i = 0; i < kCount; ++i) EXPECT(numbers[i] == sum_at(i));
  EXPECT(lanecastMemFree((char*)in + 4, direct) == lanecastUsageError);
  EXPECT(strstr(lanecastGetLastError(direct), "memory"));
  EXPECT(lanecastMemFree(in, direct) == lanecastSuccess);
  EXPECT(lanecastMemFree(NULL, direct) == lanecastSuccess);
  EXPECT(lanecastCommDestroy(direct) == lanecastSuccess); /* and with it what `out` is */
}

/* ---- Messages between two ranks ---- */

static void messages(void) {
  int32_t numbers[2 * kCount];
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  Address x;
  int has = 0;
  EXPECT(!mem_alloc(&x, sizeof numbers));
  for (size_t i = 0; i < kCount; ++i) numbers[i] = value(rank, i);
  EXPECT(!to_device(x, numbers, sizeof numbers, NULL));
  const lanecastMessage_t both[] = {{NULL, pointer(x + sizeof numbers / 2), kCount, lanecastInt32, before, 0},
                                    {pointer(x), NULL, kCount, lanecastInt32, next, 0}};
  SUCCEEDS(lanecastCommHasPeerMemory(comm, &has));
  EXPECT(has == 1);
  has = 0;
  SUCCEEDS(lanecastCommHasMessages(comm, &has));
  EXPECT(has == 1);
  SUCCEEDS(lanecastEnqueueBatch(both, 2, rank, NULL, comm));
  SUCCEEDS(lanecastEnqueueBatch(both, 0, rank, NULL, comm));
  EXPECT(!to_host(numbers, x, sizeof numbers, NULL) && !drain(NULL));
  SUCCEEDS(lanecastCommSynchronize(comm));
  for (size_t i = 0; i < kCount; ++i) EXPECT(numbers[kCount + i] == value(before, i));
  EXPECT(!mem_free(x));
}

/* ---- What goes wrong ---- */

/* Every refusal names the rank and the argument, and leaves the communicator usable. */
static void refuses(lanecastResult_t result, const char* words) {
  char who[32];
  snprintf(who, sizeof who, "rank %d: ", rank);
  if (result == lanecastUsageError && strstr(lanecastGetLastError(comm), who) &&
      strstr(lanecastGetLastError(comm), words))
    return;
  fprintf(stderr, "result %d instead of a refusal with \"%s\": %s\n", (int)result, words, lanecastGetLastError(comm));
  ++failures;
}

static void misuse(void) {
  void* memory = NULL;
  Address x;
  EXPECT(!mem_alloc(&x, 64));
  lanecastCall_t call = {lanecastCollAllReduce, pointer(x),  pointer(x), 16,  NULL,
                         lanecastFloat32,       lanecastSum, 0,          NULL};
  refuses(lanecastCommSetDevice(comm, -2), "device: -2");
  refuses(lanecastCommGetDevice(comm, NULL), "device");
  SUCCEEDS(lanecastCommSetDevice(comm, -1)); /* the current one, as before */
  refuses(lanecastCommSetDevice(comm, rank + 1), "uses GPU");
  refuses(lanecastEnqueue(NULL, rank, NULL, comm), "call");
  refuses(lanecastEnqueue(&call, -2, NULL, comm), "device: -2");
  refuses(lanecastEnqueue(&call, rank + 1, NULL, comm), "uses GPU");
  lanecastMessage_t message = {pointer(x), NULL, 16, lanecastFloat32, (rank + 1) % size, 3};
  if (size > 1) refuses(lanecastEnqueueBatch(&message, 1, rank, NULL, comm), "tag: 3");
  refuses(lanecastEnqueueBatch(NULL, 1, rank, NULL, comm), "messages");
  refuses(lanecastEnqueueBatch(&message, 1, -2, NULL, comm), "device: -2");
  message.tag = 0, message.peer = size;
  refuses(lanecastEnqueueBatch(&message, 1, rank, NULL, comm), "dst");
  message.peer = rank;
  refuses(lanecastEnqueueBatch(&message, 1, rank, NULL, comm), "in one group");
  EXPECT(lanecastCommHasPeerMemory(comm, NULL) == lanecastUsageError);
  EXPECT(lanecastCommHasMessages(comm, NULL) == lanecastUsageError);
  call.op = lanecastBxor;
  refuses(lanecastEnqueue(&call, rank, NULL, comm), "bxor");
  refuses(lanecastMemAlloc(NULL, 64, rank, comm), "memory");
  refuses(lanecastMemAlloc(&memory, 64, -1, comm), "device");
  refuses(lanecastMemFree(pointer(x), comm), "memory");
  EXPECT(lanecastEnqueue(&call, 0, NULL, NULL) == lanecastUsageError);
  EXPECT(lanecastCommSetDevice(NULL, 0) == lanecastUsageError);
  EXPECT(lanecastCommSynchronize(NULL) == lanecastUsageError);
  EXPECT(lanecastCommGetAsyncError(comm, NULL) == lanecastUsageError);
  EXPECT(lanecastMemFree(NULL, NULL) == lanecastUsageError);
  EXPECT(!mem_free(x));
}

static void thread_beside_captures(void) {
  const int relaxed = 2; /* CU_STREAM_CAPTURE_MODE_RELAXED */
  int (*exchange)(int*), mode = 0;
  find("cuThreadExchangeStreamCaptureMode", &exchange);
  EXPECT(lanecastThreadBesideCaptures(NULL) == lanecastSuccess);
  EXPECT(!exchange(&mode) && mode == relaxed);
}

enum { kLong = (512 << 10) / sizeof(int32_t) };

/* Each rank has it for itself; the calls find out where all ranks' buffers lie. */
static void registered(void) {
  lanecastError_t error = {""};
  lanecastMemory_t memory = NULL;
  void* begin = NULL;
  int done = 0;
  unsigned long long calls = 0;
  int32_t* const numbers = malloc(kLong * sizeof *numbers);
  EXPECT(lanecastMemoryCreate(&memory, &begin, 64, -2, &error) == lanecastUsageError && strstr(error.text, "device"));
  EXPECT(lanecastMemoryCreate(&memory, NULL, 64, rank, NULL) == lanecastUsageError);
  SUCCEEDS(lanecastMemoryCreate(&memory, &begin, 2 * kLong * sizeof *numbers, rank, &error));
  SUCCEEDS(lanecastCommRegister(memory, &done, comm));
  EXPECT(done == 1);
  void* const own = (int32_t*)begin + 4 * rank; /* elsewhere on each */
  const lanecastCall_t call = {lanecastCollAllReduce, own, own, kLong, NULL, lanecastInt32, lanecastSum, 0, NULL};
  for (int turn = 0; turn < 3; ++turn) { /* the first ones tell the peers of the memory */
    for (size_t i = 0; i < kLong; ++i) numbers[i] = value(rank, i);
    EXPECT(!to_device((Address)(uintptr_t)own, numbers, kLong * sizeof *numbers, NULL));
    SUCCEEDS(lanecastBarrier(comm));
    SUCCEEDS(lanecastEnqueue(&call, rank, NULL, comm));
    SUCCEEDS(lanecastCommSynchronize(comm));
    EXPECT(!to_host(numbers, (Address)(uintptr_t)own, kLong * sizeof *numbers, NULL));
    EXPECT(!drain(NULL));
    size_t wrong = 0;
    for (size_t i = 0; i < kLong; ++i) wrong += numbers[i] != sum_at(i);
    EXPECT(wrong == 0);
  }
  SUCCEEDS(lanecastCommRegisteredCalls(comm, &calls));
  EXPECT(size == 1 ? calls == 0 : calls > 0);
  refuses(lanecastCommRegister(NULL, &done, comm), "memory");
  refuses(lanecastCommRegister(memory, NULL, comm), "registered");
  refuses(lanecastCommRegisteredCalls(comm, NULL), "calls");
  SUCCEEDS(lanecastMemoryDestroy(memory));
  SUCCEEDS(lanecastMemoryDestroy(NULL));
  free(numbers);
}

/* Memory that the program has got by itself: a part of it is mapped, and stays the program's. */
static void adopted_memory(Address mine) {
  lanecastMemory_t memory;
  lanecastError_t error;
  unsigned long long before = 0, after = 0;
  int done = 0;
  int32_t* const numbers = malloc(kLong * sizeof *numbers);
  void* const own = pointer(mine + 16 * (Address)rank);
  EXPECT(lanecastMemoryAdopt(&memory, NULL, 64, rank, &error) == lanecastUsageError && strstr(error.text, "begin"));
  EXPECT(lanecastMemoryAdopt(&memory, own, 64, -2, &error) == lanecastUsageError && strstr(error.text, "device"));
  EXPECT(lanecastMemoryAdopt(&memory, own, (size_t)1 << 40, rank, &error) == lanecastUsageError);
  SUCCEEDS(lanecastMemoryAdopt(&memory, own, kLong * sizeof *numbers, -1, &error));
  SUCCEEDS(lanecastCommRegister(memory, &done, comm));
  EXPECT(done == 1);
  SUCCEEDS(lanecastCommRegisteredCalls(comm, &before));
  const lanecastCall_t call = {lanecastCollAllReduce, own, own, kLong, NULL, lanecastInt32, lanecastSum, 0, NULL};
  for (int turn = 0; turn < 3; ++turn) {
    for (size_t i = 0; i < kLong; ++i) numbers[i] = value(rank, i);
    EXPECT(!to_device((Address)(uintptr_t)own, numbers, kLong * sizeof *numbers, NULL));
    SUCCEEDS(lanecastBarrier(comm));
    SUCCEEDS(lanecastEnqueue(&call, rank, NULL, comm));
    SUCCEEDS(lanecastCommSynchronize(comm));
  }
  EXPECT(!to_host(numbers, (Address)(uintptr_t)own, kLong * sizeof *numbers, NULL) && !drain(NULL));
  size_t wrong = 0;
  for (size_t i = 0; i < kLong; ++i) wrong += numbers[i] != sum_at(i);
  EXPECT(wrong == 0);
  SUCCEEDS(lanecastCommRegisteredCalls(comm, &after));
  EXPECT(size == 1 ? after == before : after > before);
  SUCCEEDS(lanecastMemoryDestroy(memory));
  SUCCEEDS(lanecastBarrier(comm));
  SUCCEEDS(lanecastEnqueue(&call, rank, NULL, comm)); /* here the peers let go */
  SUCCEEDS(lanecastCommSynchronize(comm));
  SUCCEEDS(lanecastBarrier(comm));
  free(numbers);
}

static void memory_of_the_program(void) {
  Address mine;
  EXPECT(!mem_alloc(&mine, (kLong + 64) * sizeof(int32_t)));
  adopted_memory(mine);
  EXPECT(!mem_free(mine));
  adopted_memory(two_pieces(rank) + kPiece - kLong); /* from one piece to the other */
}

static void shared_gpu(lanecastConfig_t config) {
  lanecastComm_t refused, shared;
  SUCCEEDS(lanecastCommInitMPI(&refused, NULL, &config));
  const lanecastResult_t result = lanecastCommSetDevice(refused, 0);
  EXPECT(result == (size > 1 ? lanecastUsageError : lanecastSuccess));
  if (size > 1) EXPECT(strstr(lanecastGetLastError(refused), "use the same GPU"));
  config.allow_shared_gpu = 1;
  SUCCEEDS(lanecastCommInitMPI(&shared, NULL, &config));
  EXPECT(lanecastCommSetDevice(shared, 0) == lanecastSuccess);
  EXPECT(lanecastCommDestroy(shared) == lanecastSuccess);
  EXPECT(lanecastCommDestroy(refused) == lanecastSuccess);
}

/* The first rank calls alone. */
static void absent_peer(lanecastConfig_t config) {
  lanecastComm_t hasty;
  lanecastResult_t met = lanecastSuccess;
  Address x;
  config.timeout_s = 2;
  SUCCEEDS(lanecastCommInitMPI(&hasty, NULL, &config));
  EXPECT(lanecastCommSetDevice(hasty, rank) == lanecastSuccess);
  EXPECT(!mem_alloc(&x, 64));
  const lanecastCall_t call = {lanecastCollAllReduce, pointer(x),  pointer(x), 16,  NULL,
                               lanecastInt32,         lanecastSum, 0,          NULL};
  SUCCEEDS(lanecastBarrier(comm));
  if (rank == 0 && size > 1) {
    EXPECT(lanecastEnqueue(&call, rank, NULL, hasty) == lanecastSuccess); /* returns at once */
    EXPECT(lanecastCommSynchronize(hasty) == lanecastTimeoutError);
    /* Of several peers that do not come any may be named. */
    const char* error = lanecastGetLastError(hasty);
    EXPECT(strstr(error, "rank 0 waited for rank ") && strstr(error, " in all_reduce of 16 int32"));
    EXPECT(lanecastCommGetAsyncError(hasty, &met) == lanecastSuccess && met == lanecastTimeoutError);
    EXPECT(lanecastEnqueue(&call, rank, NULL, hasty) == lanecastTransportError);
  }
  SUCCEEDS(lanecastBarrier(comm));
  EXPECT(lanecastCommDestroy(hasty) == lanecastSuccess);
  EXPECT(!mem_free(x));
}

int main(int argc, char** argv) {
  lanecastError_t error = {""};
  lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
  config.error = &error;
  config.timeout_s = 100;
  config.kernel_cache = argc > 1 ? argv[1] : NULL;
  config.gpu_libraries = argc > 2 ? argv[2] : NULL;
  if (lanecastCommInitMPI(&comm, NULL, &config)) fprintf(stderr, "%s\n", error.text), exit(EXIT_FAILURE);
  SUCCEEDS(lanecastCommUserRank(comm, &rank));
  SUCCEEDS(lanecastCommCount(comm, &size));
  open_driver(rank);
  collectives();
  messages();
  symmetric(config);
  registered();
  memory_of_the_program();
  misuse();
  shared_gpu(config);
  absent_peer(config);
  thread_beside_captures();
  SUCCEEDS(lanecastCommDestroy(comm));
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
