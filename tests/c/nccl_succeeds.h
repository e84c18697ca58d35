/* SPDX-License-Identifier: Apache-2.0
 * Calls by NCCL's names that have to succeed, whichever header has them. */
#ifndef TESTS_C_NCCL_SUCCEEDS_H_
#define TESTS_C_NCCL_SUCCEEDS_H_

#include <stdio.h>

#include "expect.h"

static ncclComm_t comm;
#define NCCLCHECK(call)                                                                                          \
  do {                                                                                                           \
    ncclResult_t result = (call);                                                                                \
    if (result != ncclSuccess)                                                                                   \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, ncclGetErrorString(result), ncclGetLastError(comm)), ++failures; \
  } while (0)

#endif
