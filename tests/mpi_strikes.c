// SPDX-License-Identifier: Apache-2.0
// Stands before an MPI library, with whose other functions it is linked: the rank of STRIKE_RANK signals itself with
// STRIKE_SIGNAL in the place of making a group's communicator, when the others wait for it there.
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Handles are of int or of pointers, by library; either comes in a register.
int PMPI_Comm_create_group(long comm, long group, long tag, void* made);
int MPI_Comm_create_group(long comm, long group, long tag, void* made);

int MPI_Comm_create_group(long comm, long group, long tag, void* made) {
  const char* struck = getenv("STRIKE_RANK");
  const char* mine = getenv("PMI_RANK");
  if (!mine) mine = getenv("OMPI_COMM_WORLD_RANK");
  if (struck && mine && strcmp(struck, mine) == 0) {
    const struct timespec until_they_wait = {1, 0};
    nanosleep(&until_they_wait, NULL);
    for (;;) kill(getpid(), atoi(getenv("STRIKE_SIGNAL")));  // again where a launcher wakes who was stopped
  }
  return PMPI_Comm_create_group(comm, group, tag, made);
}
