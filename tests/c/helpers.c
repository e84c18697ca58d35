/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks with helpers, made without an MPI, and children by a split; nothing stays behind. Arguments: ranks, processes
 * of each, a Python. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>

#include "helped_calls.h"

enum { kMostBytes = 1 << 16 };

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
