/* SPDX-License-Identifier: Apache-2.0
 * NCCL's own header where NCCL_OWN_HEADER says that there is one; else the one of this library with NCCL's names, and
 * what it leaves out. */
#ifndef TESTS_C_NCCL_OF_TEST_H_
#define TESTS_C_NCCL_OF_TEST_H_

#ifdef NCCL_OWN_HEADER
#include <nccl.h>
typedef cudaStream_t TestStream;
#else
#define LANECAST_NCCL_PLAIN_NAMES
#include <lanecast/nccl.h>
typedef struct CUstream_st* TestStream;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
#endif

#endif
