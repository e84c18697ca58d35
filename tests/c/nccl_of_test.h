/* SPDX-License-Identifier: Apache-2.0
 * NCCL's own header where NCCL_OWN_HEADER says that there is one; else the one of this library with NCCL's names. */
#ifndef TESTS_C_NCCL_OF_TEST_H_
#define TESTS_C_NCCL_OF_TEST_H_

#ifdef NCCL_OWN_HEADER
#include <nccl.h>
typedef cudaStream_t TestStream;
#else
#define LANECAST_NCCL_PLAIN_NAMES
#include <lanecast/nccl.h>
typedef struct CUstream_st* TestStream;
#endif

#endif
