/* SPDX-License-Identifier: Apache-2.0
 * A program with NCCL's names throughout, one rank for each GPU; without a GPU over a driver that stands in for
 * NVIDIA's. Prints what went wrong. */
#include <lanecast/nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "expect.h"
#include "nccl_succeeds.h"
#include "pieces.h"

static int size;

/* ---- Collectives ---- */

enum { kCount = 1003, kMost = 9 * kCount };
static float host[kMost];
static float* device;
static Stream stream; /* the default one */

static float value(int r, int i) { return (float)(1000 * (r + 1) + i % 997); }
static float sum_at(int i) {
  float sum = 0;
  for (int r = 0; r < size; ++r) sum += value(r, i);
  return sum;
}

static void fill(int count) {
  for (int i = 0; i < kMost; ++i) host[i] = i < count ? value(rank, i) : -1;
  EXPECT(!to_device((Address)(uintptr_t)device, host, sizeof host, stream) && !drain(stream));
}

static void fetch(void) { EXPECT(!to_host(host, (Address)(uintptr_t)device, sizeof host, stream) && !drain(stream)); }

static int wrong(float (*expected)(int), int from, int count) {
  int found = 0;
  for (int i = from; i < from + count; ++i) found += host[i] != expected(i);
  return found;
}
static float from_all(int i) { return value(i / kCount, i % kCount); }
static float from_last(int i) { return value(size - 1, i); }
static float largest(int i) { return value(size - 1, i); }
static float mean(int i) { return sum_at(i) / (float)size; }

static void collectives(void) {
  fill(kCount);
  NCCLCHECK(ncclAllReduce(device, device, kCount, ncclFloat, ncclSum, comm, stream));
  fetch();
  EXPECT(!wrong(sum_at, 0, kCount));
  fill(kCount);
  NCCLCHECK(ncclAllReduce(device, device, kCount, ncclFloat32, ncclMax, comm, stream));
  fetch();
  EXPECT(!wrong(largest, 0, kCount));
  fill(size * kCount); /* in place: the share is where it belongs */
  NCCLCHECK(ncclReduceScatter(device, device + rank * kCount, kCount, ncclFloat, ncclSum, comm, stream));
  fetch();
  EXPECT(!wrong(sum_at, rank * kCount, kCount));
  fill(kCount);
  NCCLCHECK(ncclAllGather(device, device + 3 * kCount, kCount, ncclFloat, comm, stream));
  fetch();
  memmove(host, host + 3 * kCount, sizeof(float) * (size_t)(size * kCount));
  EXPECT(!wrong(from_all, 0, size * kCount));
  NCCLCHECK(ncclGroupStart());
  fill(kCount);
  NCCLCHECK(ncclBcast(device, kCount, ncclFloat, size - 1, comm, stream));
  NCCLCHECK(ncclGroupEnd());
  fetch();
  EXPECT(!wrong(from_last, 0, kCount));
  fill(kCount);
  NCCLCHECK(ncclBroadcast(device, device + kCount, kCount, ncclFloat, size - 1, comm, stream));
  fetch();
  memmove(host, host + kCount, sizeof(float) * kCount);
  EXPECT(!wrong(from_last, 0, kCount));
  fill(kCount);
  NCCLCHECK(ncclReduce(device, device, kCount, ncclFloat, ncclAvg, 0, comm, stream));
  fetch();
  if (rank == 0) EXPECT(!wrong(mean, 0, kCount));
  fill(kCount);
  NCCLCHECK(ncclGather(device, device + kCount, kCount, ncclFloat, 0, comm, stream));
  fetch();
  memmove(host, host + kCount, sizeof(float) * (size_t)(size * kCount));
  if (rank == 0) EXPECT(!wrong(from_all, 0, size * kCount));
  fill(size * kCount);
  NCCLCHECK(ncclScatter(device, device + 4 * kCount, kCount, ncclFloat, size - 1, comm, stream));
  fetch();
  for (int i = 0; i < kCount; ++i) EXPECT(host[4 * kCount + i] == value(size - 1, rank * kCount + i));
  fill(size * kCount);
  NCCLCHECK(ncclAlltoAll(device, device + 4 * kCount, kCount, ncclFloat, comm, stream));
  fetch();
  for (int i = 0; i < size * kCount; ++i) EXPECT(host[4 * kCount + i] == value(i / kCount, rank * kCount + i % kCount));
}

/* ---- Messages between two ranks ---- */

static float to_me(int i) { return value((rank + size - 1) % size, i); }

/* All to all, in place of a ring and to this rank itself: every message in one group. */
static void messages(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  fill(kCount);
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclRecv(device + kCount, kCount, ncclFloat, before, comm, stream));
  NCCLCHECK(ncclGroupEnd());
  NCCLCHECK(ncclSend(device, kCount, ncclFloat, next, comm, stream));
  NCCLCHECK(ncclSend(NULL, 0, ncclFloat, next, comm, stream));
  NCCLCHECK(ncclRecv(NULL, 0, ncclFloat, before, comm, stream));
  NCCLCHECK(ncclGroupEnd());
  fetch();
  memmove(host, host + kCount, sizeof(float) * kCount);
  EXPECT(!wrong(to_me, 0, kCount));
  fill(kCount);
  NCCLCHECK(ncclGroupStart());
  for (int r = 0; r < size; ++r) {
    NCCLCHECK(ncclSend(device, kCount, ncclFloat, r, comm, stream));
    NCCLCHECK(ncclRecv(device + (r + 1) * kCount, kCount, ncclFloat, r, comm, stream));
  }
  NCCLCHECK(ncclGroupEnd());
  fetch();
  memmove(host, host + kCount, sizeof(float) * (size_t)(size * kCount));
  EXPECT(!wrong(from_all, 0, size * kCount));
  if (size < 2) return;
  fill(kCount); /* outside a group: one of the two sends */
  if (rank == 0) NCCLCHECK(ncclSend(device, kCount, ncclFloat, size - 1, comm, stream));
  if (rank == size - 1) NCCLCHECK(ncclRecv(device, kCount, ncclFloat, 0, comm, stream));
  fetch();
  if (rank == size - 1)
    for (int i = 0; i < kCount; ++i) EXPECT(host[i] == value(0, i));
}

/* ---- Ranks in another order than MPI's, parts of them, and what goes wrong ---- */

static void others(ncclUniqueId id) {
  ncclComm_t backwards, part = comm;
  ncclResult_t met = ncclInternalError;
  int own = -1, version = 0, ordinal = -1;
  ncclUniqueId ids[2] = {id, id};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.maxCTAs = 2;
  NCCLCHECK(ncclCommInitRankConfig(&backwards, size, id, size - 1 - rank, &config));
  NCCLCHECK(ncclCommDestroy(backwards));
  NCCLCHECK(ncclCommInitRankScalable(&backwards, size, size - 1 - rank, 2, ids, NULL));
  NCCLCHECK(ncclCommUserRank(backwards, &own));
  EXPECT(own == size - 1 - rank);
  NCCLCHECK(ncclCommCuDevice(backwards, &ordinal));
  EXPECT(ordinal == rank);
  NCCLCHECK(ncclCommSplit(backwards, own == 0 ? NCCL_SPLIT_NOCOLOR : 0, own, &part, &config));
  EXPECT((part == NULL) == (own == 0));
  if (part) {
    fill(kCount);
    NCCLCHECK(ncclAllReduce(device, device, kCount, ncclFloat, ncclSum, part, stream));
    NCCLCHECK(ncclCommFinalize(part));
    fetch();
    for (int i = 0; i < kCount; ++i) EXPECT(host[i] == sum_at(i) - value(size - 1, i)); /* who is 0 there */
  }
  /* An abort ends the others' calls: they are to be through with theirs. */
  NCCLCHECK(ncclAllReduce(device, device, kCount, ncclFloat, ncclSum, backwards, stream));
  NCCLCHECK(ncclCommFinalize(backwards));
  if (part) NCCLCHECK(ncclCommAbort(part));
  NCCLCHECK(ncclCommDestroy(backwards));
  NCCLCHECK(ncclCommGetAsyncError(comm, &met));
  EXPECT(met == ncclSuccess);
  NCCLCHECK(ncclGetVersion(&version));
  EXPECT(version == NCCL_VERSION_CODE);
}

/* ---- Memory that is registered ---- */

enum { kRegistered = (1 << 20) / sizeof(float) };

/* In place in memory at `at`, three times: the first one tells the peers of it. How many calls copied nothing? */
static unsigned long long reduced(float* at) {
  unsigned long long before = 0, after = 0;
  float* const numbers = malloc(sizeof(float) * kRegistered);
  size_t bad = 0;
  EXPECT(lanecastCommRegisteredCalls(comm, &before) == lanecastSuccess);
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < kRegistered; ++i) numbers[i] = value(rank, i);
    EXPECT(!to_device((Address)(uintptr_t)at, numbers, sizeof(float) * kRegistered, stream) && !drain(stream));
    NCCLCHECK(ncclAllReduce(at, at, kRegistered, ncclFloat, ncclSum, comm, stream));
    EXPECT(!to_host(numbers, (Address)(uintptr_t)at, sizeof(float) * kRegistered, stream) && !drain(stream));
    for (int i = 0; i < kRegistered; ++i) bad += numbers[i] != sum_at(i);
  }
  EXPECT(bad == 0);
  EXPECT(lanecastCommRegisteredCalls(comm, &after) == lanecastSuccess);
  free(numbers);
  return after - before;
}

static void memory_of_nccl(int on_one_host) {
  void *mine = NULL, *handle = NULL, *again = NULL;
  ncclWindow_t window = NULL;
  Address own;
  NCCLCHECK(ncclMemAlloc(&mine, sizeof(float) * (kRegistered + 64)));
  float* const at = (float*)mine + 4 * rank; /* elsewhere on each */
  NCCLCHECK(ncclCommWindowRegister(comm, mine, sizeof(float) * (kRegistered + 64), &window, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclCommRegister(comm, at, sizeof(float) * kRegistered, &handle));
  EXPECT(window && handle);
  EXPECT((reduced(at) > 0) == on_one_host);
  NCCLCHECK(ncclCommDeregister(comm, handle));
  EXPECT(ncclCommDeregister(comm, handle) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(comm), "handle"));
  NCCLCHECK(ncclCommWindowDeregister(comm, window));
  NCCLCHECK(ncclMemFree(mine));
  EXPECT(ncclMemFree(&own) == ncclInvalidArgument && strstr(ncclGetLastError(NULL), "ncclMemAlloc"));
  NCCLCHECK(ncclMemFree(NULL));
  EXPECT(!mem_alloc(&own, sizeof(float) * kRegistered));
  NCCLCHECK(ncclCommRegister(comm, (void*)(uintptr_t)own, sizeof(float) * kRegistered, &again));
  EXPECT((reduced((float*)(uintptr_t)own) > 0) == on_one_host);
  NCCLCHECK(ncclCommDeregister(comm, again));
  void* const mapped = (void*)(uintptr_t)(two_pieces(rank) + kPiece - 64);
  NCCLCHECK(ncclCommWindowRegister(comm, mapped, sizeof(float) * kRegistered, &window, NCCL_WIN_COLL_SYMMETRIC));
  EXPECT((reduced(mapped) > 0) == on_one_host);
  NCCLCHECK(ncclCommWindowDeregister(comm, window));
  EXPECT(ncclCommRegister(comm, NULL, 1, &handle) == ncclInvalidArgument && !handle);
  EXPECT(ncclCommRegister(NULL, (void*)(uintptr_t)own, 1, &handle) == ncclInvalidArgument);
  EXPECT(ncclCommRegister(comm, (void*)(uintptr_t)own, (size_t)1 << 40, &handle) == ncclInvalidUsage);
  EXPECT(ncclCommWindowRegister(comm, (void*)(uintptr_t)own, 1, &window, 8) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(comm), "winFlags: 8"));
  fill(kCount);
  NCCLCHECK(ncclAllReduce(device, device, kCount, ncclFloat, ncclSum, comm, stream)); /* here the peers let go of it */
  fetch();
  EXPECT(lanecastBarrier(comm) == lanecastSuccess);
  EXPECT(!mem_free(own));
}

/* A later communicator may have the same handle, so whichever function ends one forgets what was registered. */
static void forgotten(int on_one_host) {
  void *mine = NULL, *handle = NULL, *left = NULL;
  Address own;
  const ncclComm_t whole = comm;
  NCCLCHECK(ncclMemAlloc(&mine, sizeof(float) * kRegistered));
  EXPECT(!mem_alloc(&own, sizeof(float) * kRegistered));
  for (int turn = 0; turn < 3; ++turn) {
    NCCLCHECK(ncclCommSplit(whole, 0, rank, &comm, NULL));
    EXPECT(!left || ncclCommDeregister(comm, left) == ncclInvalidArgument);
    NCCLCHECK(ncclCommRegister(comm, mine, sizeof(float) * kRegistered, &handle));
    NCCLCHECK(ncclCommRegister(comm, (void*)(uintptr_t)own, sizeof(float) * kRegistered, &left));
    EXPECT((reduced(mine) > 0) == on_one_host);
    EXPECT(turn % 2 ? ncclCommDestroy(comm) == ncclSuccess : lanecastCommDestroy(comm) == lanecastSuccess);
  }
  comm = whole;
  EXPECT(lanecastBarrier(comm) == lanecastSuccess); /* whoever had it mapped has let go */
  EXPECT(!mem_free(own));
  NCCLCHECK(ncclMemFree(mine));
}

/* The group's messages of a communicator that ends within it do not move, and those of others do. */
static void ended_in_a_group(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  ncclComm_t part;
  NCCLCHECK(ncclCommSplit(comm, 0, rank, &part, NULL));
  fill(kCount);
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclSend(device, kCount, ncclFloat, next, part, stream));
  NCCLCHECK(ncclSend(device, kCount, ncclFloat, next, comm, stream));
  NCCLCHECK(ncclRecv(device + 2 * kCount, kCount, ncclFloat, before, part, stream));
  NCCLCHECK(ncclRecv(device + kCount, kCount, ncclFloat, before, comm, stream));
  NCCLCHECK(ncclCommAbort(part));
  EXPECT(ncclGroupEnd() == ncclInvalidUsage && strstr(ncclGetLastError(NULL), "ended within the group"));
  fetch();
  EXPECT(host[2 * kCount] == -1);
  memmove(host, host + kCount, sizeof(float) * kCount);
  EXPECT(!wrong(to_me, 0, kCount));
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclGroupEnd());
}

static void misuse(ncclUniqueId id) {
  ncclSimInfo_t estimate = NCCL_SIM_INFO_INITIALIZER;
  ncclRedOp_t scaled = ncclSum;
  int excluded = 0;
  float factor = 2;
  ncclComm_t none = comm;
  ncclUniqueId other = {{0}};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT(ncclCommInitRank(&none, size + 1, id, rank) == ncclInvalidUsage && !none);
  EXPECT(strstr(ncclGetLastError(NULL), "nranks"));
  EXPECT(ncclCommInitRank(&none, size, other, rank) == ncclInvalidArgument);
  EXPECT(strstr(ncclGetLastError(NULL), "commId"));
  EXPECT(ncclCommInitRank(&none, size, id, size) == ncclInvalidArgument);
  EXPECT(ncclCommInitRank(NULL, size, id, rank) == ncclInvalidArgument);
  if (size > 1) EXPECT(ncclCommInitRank(&none, size, id, 0) != ncclSuccess && !none); /* two say they are the first */
  EXPECT(ncclCommInitAll(&none, 2, NULL) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(NULL), "ndev"));
  EXPECT(ncclAllReduce(device, device, 1, ncclNumTypes, ncclSum, comm, stream) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "datatype"));
  EXPECT(ncclAllReduce(device, device, 1, ncclFloat, ncclNumOps, comm, stream) == ncclInvalidUsage);
  EXPECT(ncclSend(device, 1, ncclFloat, size, comm, stream) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "dst"));
  EXPECT(ncclRecv(NULL, 1, ncclFloat, 0, comm, stream) == ncclInvalidUsage);
  EXPECT(ncclSend(device, 1, ncclFloat, rank, comm, stream) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "in one group"));
  EXPECT(ncclSend(device, 1, ncclFloat, 0, NULL, stream) == ncclInvalidArgument);
  EXPECT(ncclGroupEnd() == ncclInvalidUsage);
  EXPECT(ncclCommShrink(comm, &excluded, 1, &none, NULL, NCCL_SHRINK_DEFAULT) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "use ncclCommSplit"));
  EXPECT(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat, ncclScalarHostImmediate, comm) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "multiply before the call"));
  EXPECT(ncclRedOpDestroy(scaled, comm) == ncclInvalidArgument && strstr(ncclGetLastError(comm), "op: 0"));
  NCCLCHECK(ncclGroupStart());
  EXPECT(ncclGroupSimulateEnd(&estimate) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(NULL), "ncclGroupSimulateEnd") && estimate.estimatedTime < 0);
  NCCLCHECK(ncclGroupEnd());
  EXPECT(ncclCommInitRankScalable(&none, size, rank, 0, &id, NULL) == ncclInvalidArgument);
  EXPECT(ncclCommCuDevice(comm, NULL) == ncclInvalidUsage);
  config.maxCTAs = 0;
  EXPECT(ncclCommSplit(comm, 0, 0, &none, &config) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "maxCTAs is 0"));
  config.magic = 7;
  EXPECT(ncclCommInitRankConfig(&none, size, id, rank, &config) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(NULL), "NCCL_CONFIG_INITIALIZER"));
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  EXPECT(ncclCommSplit(comm, 0, 0, &none, &config) == ncclInvalidUsage);
  EXPECT(ncclCommInitRankConfig(&none, size, id, rank, &config) == ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(NULL), "blocking"));
  EXPECT(ncclCommGetAsyncError(comm, NULL) == ncclInvalidArgument);
  EXPECT(ncclGetUniqueId(NULL) == ncclInvalidArgument && ncclGetVersion(NULL) == ncclInvalidArgument);
  EXPECT(ncclGetErrorString(ncclNumResults) != NULL);
  NCCLCHECK(ncclCommInitAll(&none, 1, NULL));
  NCCLCHECK(ncclCommDestroy(none));
}

int main(int argc, char** argv) {
  ncclUniqueId id;
  Address memory;
  int count = 0, on_one_host = 0;
  if (argc < 3) return EXIT_FAILURE;
  rank = atoi(getenv(argv[1])), size = atoi(argv[2]); /* the launcher's variable, since the program does not use MPI */
  open_driver(rank);
  NCCLCHECK(ncclGetUniqueId(&id));
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  if (!comm) return EXIT_FAILURE;
  NCCLCHECK(ncclCommCount(comm, &count));
  EXPECT(count == size);
  EXPECT(!mem_alloc(&memory, sizeof host));
  device = (float*)(uintptr_t)memory;
  collectives();
  messages();
  EXPECT(lanecastCommHasPeerMemory(comm, &on_one_host) == lanecastSuccess);
  memory_of_nccl(on_one_host && size > 1);
  forgotten(on_one_host && size > 1);
  ended_in_a_group();
  if (size > 1) others(id);
  misuse(id);
  NCCLCHECK(ncclCommDestroy(comm));
  EXPECT(!mem_free(memory));
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
