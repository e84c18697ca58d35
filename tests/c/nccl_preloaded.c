/* SPDX-License-Identifier: Apache-2.0
 * A program for NCCL that knows nothing of Lanecast: compiled against NCCL's own header where there is one, else
 * against lanecast/nccl.h with NCCL's names. One process for each rank, which find each other by a file. Prints what
 * went wrong.
 *
 *     nccl_preloaded RANK RANKS FILE [group|two|windows|left|many|long|fork|bench] */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "expect.h"
#include "nccl_of_test.h"
#include "nccl_succeeds.h"

static int size;

enum { kCount = 1003, kMost = 8 * kCount };
static float host[kMost];
static float *from, *to;
static TestStream stream; /* the default one */

static float value(int r, int i) { return (float)(100 * (r + 1) + i % 97); }
static float sum_at(int i) {
  float sum = 0;
  for (int r = 0; r < size; ++r) sum += value(r, i);
  return sum;
}

static void fill(void) {
  for (int i = 0; i < kMost; ++i) host[i] = value(rank, i);
  EXPECT(!to_device((Address)(uintptr_t)from, host, sizeof host, (Stream)stream) && !drain((Stream)stream));
}

static void fetch(void) {
  EXPECT(!to_host(host, (Address)(uintptr_t)to, sizeof host, (Stream)stream) && !drain((Stream)stream));
}

/* The elements from `at` on are `factor` times expected(i), or of rank r where given. */
static int wrong_sums(int at, int first, int count, float factor) {
  int found = 0;
  for (int i = 0; i < count; ++i) found += host[at + i] != factor * sum_at(first + i);
  return found;
}
static int wrong_values(int at, int r, int first, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i) found += host[at + i] != value(r, first + i);
  return found;
}

static void collectives(int root) {
  fill();
  NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, comm, stream));
  fetch();
  EXPECT(!wrong_sums(0, 0, kCount, 1));
  NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclAvg, comm, stream));
  fetch();
  EXPECT(!wrong_sums(0, 0, kCount, 1 / (float)size) || size == 3);
  NCCLCHECK(ncclReduceScatter(from, to, kCount, ncclFloat, ncclSum, comm, stream));
  fetch();
  EXPECT(!wrong_sums(0, rank * kCount, kCount, 1));
  NCCLCHECK(ncclAllGather(from, to, kCount, ncclFloat, comm, stream));
  fetch();
  for (int r = 0; r < size; ++r) EXPECT(!wrong_values(r * kCount, r, 0, kCount));
  NCCLCHECK(ncclBroadcast(rank == root ? from : NULL, to, kCount, ncclFloat, root, comm, stream));
  fetch();
  EXPECT(!wrong_values(0, root, 0, kCount));
  NCCLCHECK(ncclReduce(from, rank == root ? to : NULL, kCount, ncclFloat, ncclSum, root, comm, stream));
  fetch();
  if (rank == root) EXPECT(!wrong_sums(0, 0, kCount, 1));
  NCCLCHECK(ncclAlltoAll(from, to, kCount, ncclFloat, comm, stream));
  fetch();
  for (int r = 0; r < size; ++r) EXPECT(!wrong_values(r * kCount, r, rank * kCount, kCount));
  NCCLCHECK(ncclGather(from, rank == root ? to : NULL, kCount, ncclFloat, root, comm, stream));
  fetch();
  for (int r = 0; r < size && rank == root; ++r) EXPECT(!wrong_values(r * kCount, r, 0, kCount));
  NCCLCHECK(ncclScatter(rank == root ? from : NULL, to, kCount, ncclFloat, root, comm, stream));
  fetch();
  EXPECT(!wrong_values(0, root, rank * kCount, kCount));
  NCCLCHECK(ncclAllReduce(from, to, 0, ncclFloat, ncclSum, comm, stream));
}

/* What Lanecast does not take: by NCCL, in between. */
static void passed_on(void) {
  ncclRedOp_t twice;
  float scalar = 2;
  int32_t* const numbers = (int32_t*)from;
  NCCLCHECK(ncclRedOpCreatePreMulSum(&twice, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
  fill();
  NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, twice, comm, stream));
  fetch();
  EXPECT(!wrong_sums(0, 0, kCount, 2));
  NCCLCHECK(ncclRedOpDestroy(twice, comm));
  for (int i = 0; i < kCount; ++i) host[i] = 0;
  EXPECT(!to_device((Address)(uintptr_t)from, host, sizeof host, (Stream)stream) && !drain((Stream)stream));
  NCCLCHECK(ncclAllReduce(numbers, to, kCount, ncclInt32, ncclAvg, comm, stream));
  fetch();
  for (int i = 0; i < kCount; ++i) EXPECT(host[i] == 0);
}

static void messages(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  fill();
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclSend(from, kCount, ncclFloat, next, comm, stream));
  NCCLCHECK(ncclGroupEnd());
  NCCLCHECK(ncclRecv(to, kCount, ncclFloat, before, comm, stream));
  NCCLCHECK(ncclAllReduce(from, to + 2 * kCount, 1, ncclFloat, ncclSum, comm, stream));
  NCCLCHECK(ncclGroupEnd());
  fetch();
  EXPECT(!wrong_values(0, before, 0, kCount));
  EXPECT(!wrong_sums(2 * kCount, 0, 1, 1));
}

/* Whoever destroys a communicator within a group has its messages all the same. */
static void ended_in_a_group(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  ncclComm_t part = NULL;
  NCCLCHECK(ncclCommSplit(comm, 0, rank, &part, NULL));
  fill();
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclSend(from, kCount, ncclFloat, next, part, stream));
  NCCLCHECK(ncclRecv(to, kCount, ncclFloat, before, part, stream));
  NCCLCHECK(ncclCommDestroy(part));
  NCCLCHECK(ncclGroupEnd());
  fetch();
  EXPECT(!wrong_values(0, before, 0, kCount));
}

/* Rank 0 apart from the others, which are turned round. */
static void parts(void) {
  ncclComm_t part = NULL;
  int own = -1, members = 0;
  NCCLCHECK(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, size - rank, &part, NULL));
  EXPECT((part == NULL) == (rank == 0));
  if (!part) return;
  NCCLCHECK(ncclCommUserRank(part, &own));
  NCCLCHECK(ncclCommCount(part, &members));
  EXPECT(own == size - 1 - rank && members == size - 1);
  fill();
  NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, part, stream));
  fetch();
  for (int i = 0; i < kCount; ++i) EXPECT(host[i] == sum_at(i) - value(0, i));
  NCCLCHECK(ncclCommFinalize(part));
  NCCLCHECK(ncclCommDestroy(part));
}

static void registered(void) {
  void* handle = NULL;
  NCCLCHECK(ncclCommRegister(comm, from, sizeof host, &handle));
  fill();
  NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, comm, stream));
  fetch();
  EXPECT(!wrong_sums(0, 0, kCount, 1));
  NCCLCHECK(ncclCommDeregister(comm, handle));
}

/* Of two communicators that one group has made. */
static void second(ncclComm_t other) {
  fill();
  NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, other, stream));
  fetch();
  EXPECT(!wrong_sums(0, 0, kCount, 1));
  NCCLCHECK(ncclCommDestroy(other));
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int open_files(void) {
  int count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) ++count;
  closedir(folder);
  return count;
}

/* Messages long enough to be offered to the peers. */
enum { kLongShare = (512 << 10) / sizeof(float) + 3 };
static void long_in_windows(int turns) {
  const int whole = size * kLongShare;
  float* const values = malloc((size_t)whole * sizeof *values);
  for (int turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < whole; ++i) values[i] = value(rank, i);
    EXPECT(!to_device((Address)(uintptr_t)from, values, (size_t)whole * sizeof *values, (Stream)stream));
    EXPECT(!drain((Stream)stream));
    NCCLCHECK(ncclAllReduce(from, to, (size_t)whole, ncclFloat, ncclSum, comm, stream));
    EXPECT(!to_host(values, (Address)(uintptr_t)to, (size_t)whole * sizeof *values, (Stream)stream));
    EXPECT(!drain((Stream)stream));
    int wrong = 0;
    for (int i = 0; i < whole; ++i) wrong += values[i] != sum_at(i);
    NCCLCHECK(ncclReduceScatter(from, to, kLongShare, ncclFloat, ncclSum, comm, stream));
    EXPECT(!to_host(values, (Address)(uintptr_t)to, kLongShare * sizeof *values, (Stream)stream));
    EXPECT(!drain((Stream)stream));
    for (int i = 0; i < kLongShare; ++i) wrong += values[i] != sum_at(rank * kLongShare + i);
    NCCLCHECK(ncclAllGather(from, to, kLongShare, ncclFloat, comm, stream));
    EXPECT(!to_host(values, (Address)(uintptr_t)to, (size_t)whole * sizeof *values, (Stream)stream));
    EXPECT(!drain((Stream)stream));
    for (int i = 0; i < whole; ++i) wrong += values[i] != value(i / kLongShare, i % kLongShare);
    EXPECT(wrong == 0);
  }
  free(values);
}

/* Calls on symmetric windows that were made in a group, also where the other ranks leave out what a root alone has;
 * then without. stay: the windows, until the communicator has gone. */
static void windows(int stay) {
  ncclWindow_t first = NULL, second = NULL;
  void *in = NULL, *out = NULL;
  const size_t bytes = (size_t)size * kLongShare * sizeof(float);
  const int root = size - 1;
  NCCLCHECK(ncclMemAlloc(&in, bytes));
  NCCLCHECK(ncclMemAlloc(&out, bytes));
  from = in, to = out;
  NCCLCHECK(ncclGroupStart());
  NCCLCHECK(ncclCommWindowRegister(comm, in, bytes, &first, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclCommWindowRegister(comm, out, bytes, &second, NCCL_WIN_COLL_SYMMETRIC));
  NCCLCHECK(ncclGroupEnd());
  collectives(root);
  long_in_windows(3);
  if (stay) NCCLCHECK(ncclCommDestroy(comm));
  if (stay) comm = NULL;
  if (!stay) NCCLCHECK(ncclCommWindowDeregister(comm, first));
  if (!stay) NCCLCHECK(ncclCommWindowDeregister(comm, second));
  if (!stay) collectives(0);
  NCCLCHECK(ncclMemFree(in));
  NCCLCHECK(ncclMemFree(out));
}

/* Nothing is left of windows and registrations that have been closed. */
static void many_windows(void) {
  int before = 0;
  for (int turn = 0; turn < 102; ++turn) {
    ncclWindow_t window = NULL;
    void *memory = NULL, *handle = NULL;
    NCCLCHECK(ncclMemAlloc(&memory, sizeof host));
    NCCLCHECK(ncclCommWindowRegister(comm, memory, sizeof host, &window, NCCL_WIN_COLL_SYMMETRIC));
    for (int k = 0; k < 2; ++k) NCCLCHECK(ncclCommRegister(comm, memory, sizeof host, &handle));
    NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, comm, stream));
    for (int k = 0; k < 2; ++k) NCCLCHECK(ncclCommDeregister(comm, handle));
    NCCLCHECK(ncclCommWindowDeregister(comm, window));
    NCCLCHECK(ncclMemFree(memory));
    for (int k = 0; k < 3 && (turn == 1 || turn == 101); ++k) collectives(0); /* in which peers let go */
    if (turn == 1) before = open_files();
  }
  EXPECT(open_files() == before);
}

/* A child that uses what it has from its parent ends well, also by exit(), and the parent goes on. */
static void in_a_child(void) {
  int result = -1, count = 0;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    NCCLCHECK(ncclCommCount(comm, &count));
    EXPECT(count == size);
    NCCLCHECK(ncclAllReduce(from, to, kCount, ncclFloat, ncclSum, comm, stream));
    NCCLCHECK(ncclCommDestroy(comm));
    exit(failures ? EXIT_FAILURE : EXIT_SUCCESS);
  }
  EXPECT(child > 0 && waitpid(child, &result, 0) == child && result == 0);
  collectives(0);
}

static float* many(int count, float factor) {
  Address at;
  float* const values = malloc((size_t)count * sizeof *values);
  for (int i = 0; i < count; ++i) values[i] = factor * (float)(i % 97);
  EXPECT(!mem_alloc(&at, (size_t)count * sizeof *values));
  EXPECT(!to_device(at, values, (size_t)count * sizeof *values, (Stream)stream) && !drain((Stream)stream));
  free(values);
  return (float*)(uintptr_t)at;
}

static void expect_many(const float* at, int count, float factor) {
  int wrong = 0;
  float* const values = malloc((size_t)count * sizeof *values);
  EXPECT(!to_host(values, (Address)(uintptr_t)at, (size_t)count * sizeof *values, (Stream)stream));
  EXPECT(!drain((Stream)stream));
  for (int i = 0; i < count; ++i) wrong += values[i] != factor * (float)(i % 97);
  free(values);
  EXPECT(wrong == 0);
}

/* Rank 0 has all in one group, of which NCCL takes what is longer than the slots; rank 1 makes one call after another,
 * and sends more than the slots hold before it receives. */
static void long_messages(void) {
  enum { kLong = (18 << 20) / 4 + 1, kPart = (7 << 20) / 4, kParts = 3 };
  float *whole = many(kLong, rank == 0 ? 1 : 0), *part[kParts];
  for (int k = 0; k < kParts; ++k) part[k] = many(kPart, rank == 1 ? (float)k + 2 : 0);
  if (rank == 0) NCCLCHECK(ncclGroupStart());
  if (rank == 0) NCCLCHECK(ncclSend(whole, kLong, ncclFloat, 1, comm, stream));
  for (int k = 0; k < kParts; ++k) {
    if (rank == 0) NCCLCHECK(ncclRecv(part[k], kPart, ncclFloat, 1, comm, stream));
    if (rank == 1) NCCLCHECK(ncclSend(part[k], kPart, ncclFloat, 0, comm, stream));
  }
  if (rank == 1) NCCLCHECK(ncclRecv(whole, kLong, ncclFloat, 0, comm, stream));
  if (rank == 0) NCCLCHECK(ncclGroupEnd());
  expect_many(whole, kLong, 1);
  for (int k = 0; k < kParts; ++k) expect_many(part[k], kPart, (float)k + 2);
}

/* The best of many calls that are passed on, in nanoseconds: others use the machine, too. */
static void bench(void) {
  double best = 1;
  for (int round = 0; round < 4000; ++round) {
    const double begin = seconds();
    for (int k = 0; k < 100; ++k) NCCLCHECK(ncclAllReduce(from, to, 0, ncclFloat, ncclSum, comm, stream));
    const double one = (seconds() - begin) / 100;
    if (one < best) best = one;
  }
  printf("passed on: %.0f ns\n", best * 1e9);
}

static ncclUniqueId met(const char* path) {
  ncclUniqueId id;
  FILE* file;
  char made[4096];
  memset(&id, 0, sizeof id);
  snprintf(made, sizeof made, "%s.made", path);
  if (rank == 0) {
    NCCLCHECK(ncclGetUniqueId(&id));
    file = fopen(made, "wb");
    if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) || rename(made, path)) exit(EXIT_FAILURE);
    return id;
  }
  while (!(file = fopen(path, "rb"))) usleep(1000);
  if (fread(&id, sizeof id, 1, file) != 1) exit(EXIT_FAILURE);
  fclose(file);
  return id;
}

int main(int argc, char** argv) {
  ncclUniqueId id;
  Address memory;
  ncclResult_t async = ncclInternalError;
  int version = 0;
  const char* const how = argc > 4 ? argv[4] : "";
  ncclComm_t other = NULL;
  char path[4096];
  if (argc < 4) return EXIT_FAILURE;
  rank = atoi(argv[1]), size = atoi(argv[2]);
  open_driver(rank);
  id = met(argv[3]);
  if (strcmp(how, "group") == 0 || strcmp(how, "two") == 0) {
    snprintf(path, sizeof path, "%s.other", argv[3]);
    NCCLCHECK(ncclGroupStart());
    NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
    if (strcmp(how, "two") == 0) NCCLCHECK(ncclCommInitRank(&other, size, met(path), rank));
    NCCLCHECK(ncclGroupEnd());
  } else {
    NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  }
  if (!comm) return EXIT_FAILURE;
  EXPECT(!mem_alloc(&memory, sizeof host));
  from = (float*)(uintptr_t)memory;
  EXPECT(!mem_alloc(&memory, sizeof host));
  to = (float*)(uintptr_t)memory;
  NCCLCHECK(ncclGetVersion(&version));
  EXPECT(version == (getenv("GPU_HOST_NCCL_VERSION") ? atoi(getenv("GPU_HOST_NCCL_VERSION")) : 22809));
  collectives(size - 1);
  collectives(0);
  passed_on();
  messages();
  if (size > 1 && !other) ended_in_a_group(); /* whose split goes by Lanecast */
  if (size > 1) parts();
  registered();
  if (other) second(other);
  if (strcmp(how, "windows") == 0 || strcmp(how, "left") == 0) windows(strcmp(how, "left") == 0);
  if (!comm) return failures ? EXIT_FAILURE : EXIT_SUCCESS;
  if (strcmp(how, "many") == 0) many_windows();
  if (strcmp(how, "long") == 0) long_messages();
  if (strcmp(how, "fork") == 0) in_a_child();
  if (strcmp(how, "bench") == 0) bench();
  NCCLCHECK(ncclCommGetAsyncError(comm, &async));
  EXPECT(async == ncclSuccess);
  NCCLCHECK(ncclCommDestroy(comm));
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
