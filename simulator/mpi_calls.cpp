// SPDX-License-Identifier: Apache-2.0
// What our MPI transport calls, by MPI's profiling interface: the same calls, as a simulated MPI wants them.
#include <mpi.h>

#include "device.h"

using lanecast::simulator::settle;

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  settle();
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  settle();
  return PMPI_Irecv(data, count, type, peer, tag, comm, request);
}

/// Blocks: while a rank only looks, the simulated clock stands still, or each look takes simulated time. One at a time,
/// because SMPI's Waitsome tests the others, and each of its tests leaves something behind that all later ones pass.
int MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  settle();
  const int code = PMPI_Waitany(count, requests, indices, statuses);
  *done = *indices == MPI_UNDEFINED ? MPI_UNDEFINED : 1;
  return code;
}

/// SMPI has none.
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return PMPI_Comm_dup(comm, made);
}

}  // extern "C"
