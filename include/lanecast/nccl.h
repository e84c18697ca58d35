/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's names over Lanecast: a program written for NCCL includes this in place of <nccl.h> and links liblanecast.
 *
 *     mpicc -o train train.c -I… -llanecast && mpirun -n 8 ./train
 *
 * Each process is one rank with one GPU, and the ranks are those of an MPI job, which carries what a unique id stands
 * for. Numbers of types, operators and results are NCCL's. An ncclComm_t is a lanecastComm_t, so lanecast.h's functions
 * take it, too, and the LANECAST_… variables hold for it. What Lanecast does not have on GPUs is not declared, so that
 * compiling tells: operators of the caller's, several GPUs in one process. Messages between two ranks go within a host.
 * docs/reference/gpu.md says more. */
#ifndef LANECAST_NCCL_H_
#define LANECAST_NCCL_H_

#include <limits.h>

#include "lanecast.h"

/* NCCL's own header brings these along, and programs count on it. */
#if defined(__has_include)
#if __has_include(<cuda_fp16.h>) && __has_include(<cuda_runtime.h>)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif
#endif

/* Of the last NCCL that had no more than this header has. */
#define NCCL_MAJOR 2
#define NCCL_MINOR 10
#define NCCL_PATCH 3
#define NCCL_SUFFIX "lanecast"
#define NCCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR (-1)

#ifdef __cplusplus
extern "C" {
#endif

typedef lanecastComm_t ncclComm_t;

struct CUstream_st; /* a cudaStream_t points to one */

typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2, /* what lanecast.h calls a transport error */
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5, /* a usage error */
  ncclRemoteError = 6,  /* a timeout: the text says who did not come */
  ncclInProgress = 7,   /* never from liblanecast: its calls block until they are enqueued */
  ncclNumResults = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4, /* floats only */
  ncclNumOps = 5
} ncclRedOp_t;

/* The symbols have names of their own: a process may hold NCCL as well. With NCCL's own names the same program is for
 * NCCL, and for liblanecast_nccl.so before it. */
#ifndef LANECAST_NCCL_PLAIN_NAMES
#define ncclGetVersion lanecastNcclGetVersion
#define ncclGetUniqueId lanecastNcclGetUniqueId
#define ncclCommInitRank lanecastNcclCommInitRank
#define ncclCommInitRankConfig lanecastNcclCommInitRankConfig
#define ncclCommInitAll lanecastNcclCommInitAll
#define ncclCommSplit lanecastNcclCommSplit
#define ncclCommFinalize lanecastNcclCommFinalize
#define ncclCommDestroy lanecastNcclCommDestroy
#define ncclCommAbort lanecastNcclCommAbort
#define ncclCommCount lanecastNcclCommCount
#define ncclCommUserRank lanecastNcclCommUserRank
#define ncclCommGetAsyncError lanecastNcclCommGetAsyncError
#define ncclGetErrorString lanecastNcclGetErrorString
#define ncclGetLastError lanecastNcclGetLastError
#define ncclGroupStart lanecastNcclGroupStart
#define ncclGroupEnd lanecastNcclGroupEnd
#define ncclAllReduce lanecastNcclAllReduce
#define ncclAllGather lanecastNcclAllGather
#define ncclReduceScatter lanecastNcclReduceScatter
#define ncclBroadcast lanecastNcclBroadcast
#define ncclBcast lanecastNcclBcast
#define ncclReduce lanecastNcclReduce
#define ncclAlltoAll lanecastNcclAlltoAll
#define ncclGather lanecastNcclGather
#define ncclScatter lanecastNcclScatter
#define ncclSend lanecastNcclSend
#define ncclRecv lanecastNcclRecv
#endif

/** Of NCCL 2.28: start from NCCL_CONFIG_INITIALIZER. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking; /* 1 or undefined */
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs; /* multiprocessors that a call takes at most: lanecastConfig_t::max_ctas */
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
} ncclConfig_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_CONFIG_INITIALIZER \
  {sizeof(ncclConfig_t),        \
   0xcafebeef,                  \
   22800,                       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_PTR,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_PTR,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT,       \
   NCCL_CONFIG_UNDEF_INT}

/** NCCL_VERSION_CODE of this header. */
LANECAST_API ncclResult_t ncclGetVersion(int* version);

/** Stands for all ranks of the MPI job. */
LANECAST_API ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/** Makes a communicator of all ranks of the MPI job, with the numbers that each gives itself; of fewer by
 * ncclCommSplit. One rank alone needs no MPI. The GPU is the calling thread's current one. ncclGetLastError(NULL)
 * has the text of what failed. */
LANECAST_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);

/** The same with `config`, which may be NULL; what Lanecast has no such choice for is not read. */
LANECAST_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                                 ncclConfig_t* config);

/** A communicator of one rank, the only number of GPUs that a process may have here. devlist is not read. */
LANECAST_API ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/** As lanecastCommSplit; with NCCL_SPLIT_NOCOLOR *newcomm becomes NULL. config: NULL. */
LANECAST_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);

/** Waits for all that is enqueued. */
LANECAST_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
LANECAST_API ncclResult_t ncclCommDestroy(ncclComm_t comm);

/** Fails the communicator on all ranks, and frees it. */
LANECAST_API ncclResult_t ncclCommAbort(ncclComm_t comm);

LANECAST_API ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
LANECAST_API ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
LANECAST_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
LANECAST_API const char* ncclGetErrorString(ncclResult_t result);
LANECAST_API const char* ncclGetLastError(ncclComm_t comm);

/** Messages between the two move all at once, from the end of the outermost group on, which returns what went wrong.
 * Collectives between them are made at once, one after the other: a process has one GPU, so none waits for another. */
LANECAST_API ncclResult_t ncclGroupStart(void);
LANECAST_API ncclResult_t ncclGroupEnd(void);

/* Collectives: in the order of the stream, as NCCL's; in place where NCCL's are. */

LANECAST_API ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                        ncclRedOp_t op, ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                                        ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                            struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                        int root, ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                    struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                     ncclRedOp_t op, int root, ncclComm_t comm, struct CUstream_st* stream);

LANECAST_API ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                       ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                     int root, ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                                      int root, ncclComm_t comm, struct CUstream_st* stream);

/* Messages between two ranks of one host, in the order of the stream; to this rank itself in a group only. As with
 * lanecastEnqueueBatch, one of another size than its peer's is an error. */

LANECAST_API ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                                   ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                   struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif /* LANECAST_NCCL_H_ */
