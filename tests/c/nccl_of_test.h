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
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_WIN_COLL_SYMMETRIC 1
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* window, int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
ncclResult_t ncclMemAlloc(void** at, size_t size);
ncclResult_t ncclMemFree(void* at);
#endif

#endif
