// SPDX-License-Identifier: Apache-2.0
// Stands before an MPI library, with whose other functions it is linked: once the file of REFUSES_FROM is there, the
// rank of REFUSING_RANK can send no message any more, as where the network to its peers has failed.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Handles are of int or of pointers, by library; either comes in a register.
int PMPI_Isend(const void* data, int count, long type, int peer, int tag, long comm, void* request);
int MPI_Isend(const void* data, int count, long type, int peer, int tag, long comm, void* request);

int MPI_Isend(const void* data, int count, long type, int peer, int tag, long comm, void* request) {
  const char* refusing = getenv("REFUSING_RANK");
  const char* mine = getenv("PMI_RANK");
  const char* from = getenv("REFUSES_FROM");
  const int kErrOther = 15;  // MPICH's
  if (refusing && mine && from && strcmp(refusing, mine) == 0 && access(from, F_OK) == 0) return kErrOther;
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}
