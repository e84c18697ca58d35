/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's names over Lanecast: a program written for NCCL includes this in place of <nccl.h> and links liblanecast.
 *
 *     mpicc -o train train.c -I… -llanecast && mpirun -n 8 ./train
 *
 * Each process is one rank with one GPU, and the ranks are those of an MPI job, which carries what a unique id stands
 * for. Numbers of types, operators and results are NCCL's. An ncclComm_t is a lanecastComm_t, so lanecast.h's functions
 * take it, too, and the LANECAST_… variables hold for it. The functions are those of NCCL 2.28. What Lanecast does not
 * have on GPUs returns ncclInvalidUsage, and ncclGetLastError says why: operators of the caller's, several GPUs in one
 * process, ncclCommShrink, ncclGroupSimulateEnd. Not declared are the twins for tools, pncclX, and the device
 * interface. docs/reference/gpu-c.md says more. */
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

/* Of the NCCL whose functions these are. */
#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX "lanecast"
#define NCCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_COMM_NULL NULL
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#ifdef __cplusplus
extern "C" {
#endif

typedef lanecastComm_t ncclComm_t;

/** Memory that ncclCommWindowRegister has registered. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

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
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/** Where the factor of an operator lies. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

/* The symbols have names of their own: a process may hold NCCL as well. With NCCL's own names the same program is for
 * NCCL, and for liblanecast_nccl.so before it. */
#ifndef LANECAST_NCCL_PLAIN_NAMES
#define ncclGetVersion lanecastNcclGetVersion
#define ncclGetUniqueId lanecastNcclGetUniqueId
#define ncclCommInitRank lanecastNcclCommInitRank
#define ncclCommInitRankConfig lanecastNcclCommInitRankConfig
#define ncclCommInitRankScalable lanecastNcclCommInitRankScalable
#define ncclCommInitAll lanecastNcclCommInitAll
#define ncclCommSplit lanecastNcclCommSplit
#define ncclCommShrink lanecastNcclCommShrink
#define ncclCommFinalize lanecastNcclCommFinalize
#define ncclCommDestroy lanecastNcclCommDestroy
#define ncclCommAbort lanecastNcclCommAbort
#define ncclCommCount lanecastNcclCommCount
#define ncclCommUserRank lanecastNcclCommUserRank
#define ncclCommCuDevice lanecastNcclCommCuDevice
#define ncclCommGetAsyncError lanecastNcclCommGetAsyncError
#define ncclGetErrorString lanecastNcclGetErrorString
#define ncclGetLastError lanecastNcclGetLastError
#define ncclGroupStart lanecastNcclGroupStart
#define ncclGroupEnd lanecastNcclGroupEnd
#define ncclGroupSimulateEnd lanecastNcclGroupSimulateEnd
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
#define ncclMemAlloc lanecastNcclMemAlloc
#define ncclMemFree lanecastNcclMemFree
#define ncclCommRegister lanecastNcclCommRegister
#define ncclCommDeregister lanecastNcclCommDeregister
#define ncclCommWindowRegister lanecastNcclCommWindowRegister
#define ncclCommWindowDeregister lanecastNcclCommWindowDeregister
#define ncclRedOpCreatePreMulSum lanecastNcclRedOpCreatePreMulSum
#define ncclRedOpDestroy lanecastNcclRedOpDestroy
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
} ncclConfig_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_CONFIG_INITIALIZER                  \
  {sizeof(ncclConfig_t),  0xcafebeef,            \
   NCCL_VERSION_CODE,     NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT}

/** NCCL_VERSION_CODE of this header. */
LANECAST_API ncclResult_t ncclGetVersion(int* version);

/** Stands for all ranks of the MPI job. */
LANECAST_API ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/** Makes a communicator of all ranks of the MPI job, with the numbers that each gives itself; of fewer by
 * ncclCommSplit. One rank alone needs no MPI. The GPU is the calling thread's current one. ncclGetLastError(NULL)
 * has the text of what failed. */
LANECAST_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);

/** The same with `config`, which may be NULL and else starts from NCCL_CONFIG_INITIALIZER; what Lanecast has no such
 * choice for is not read. */
LANECAST_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                                 ncclConfig_t* config);

/** The same with `nId` ids of ncclGetUniqueId, at least one; of Lanecast's one is as good as many. */
LANECAST_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                                   ncclUniqueId* commIds, ncclConfig_t* config);

/** A communicator of one rank, the only number of GPUs that a process may have here. devlist is not read. */
LANECAST_API ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/** As lanecastCommSplit; with NCCL_SPLIT_NOCOLOR *newcomm becomes NULL. config: as above; NULL, and what it leaves
 * undefined: as `comm` has it. */
LANECAST_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);

/** ncclInvalidUsage: the ranks that are left out take no part, and Lanecast's splits need all. */
LANECAST_API ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                                         ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);

/** Waits for all that is enqueued. */
LANECAST_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
LANECAST_API ncclResult_t ncclCommDestroy(ncclComm_t comm);

/** Fails the communicator on all ranks, and frees it. */
LANECAST_API ncclResult_t ncclCommAbort(ncclComm_t comm);

LANECAST_API ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
LANECAST_API ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
/** The ordinal of the communicator's GPU. */
LANECAST_API ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device);
LANECAST_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
LANECAST_API const char* ncclGetErrorString(ncclResult_t result);
LANECAST_API const char* ncclGetLastError(ncclComm_t comm);

/** Messages between the two move all at once, from the end of the outermost group on, which returns what went wrong:
 * ncclInvalidUsage where a communicator that has some was destroyed or aborted before.
 * Collectives between them are made at once, one after the other: a process has one GPU, so none waits for another. */
LANECAST_API ncclResult_t ncclGroupStart(void);
LANECAST_API ncclResult_t ncclGroupEnd(void);

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER {sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, -1.0f}

/** ncclInvalidUsage: collectives of a group have been made by then. The group stays open. */
LANECAST_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

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

/* Messages between two ranks, in the order of the stream; to this rank itself in a group only. As with
 * lanecastEnqueueBatch, one of another size than its peer's is an error. */

LANECAST_API ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                                   ncclComm_t comm, struct CUstream_st* stream);
LANECAST_API ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                   struct CUstream_st* stream);

/* Memory and its registration, for calls that copy nothing within a host. As lanecastMemoryCreate and
 * lanecastCommRegister, which say from when on; where registering is of no use it succeeds all the same. */

/** Memory on the calling thread's current GPU that may be registered, zeroed. */
LANECAST_API ncclResult_t ncclMemAlloc(void** ptr, size_t size);
/** Waits for that GPU's work. NULL is allowed. */
LANECAST_API ncclResult_t ncclMemFree(void* ptr);

/** Memory of ncclMemAlloc, or what lanecastMemoryAdopt takes; other memory is ncclInvalidUsage. No rank need do as the
 * others do. */
LANECAST_API ncclResult_t ncclCommRegister(ncclComm_t comm, void* buff, size_t size, void** handle);
/** Waits for the GPU's work. The program's own memory may be freed behind that and the ranks' next call or the
 * communicator's end, since peers have it mapped until then. Memory of ncclMemAlloc stays registered until it is freed.
 */
LANECAST_API ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle);

/** The same: Lanecast's windows need not be symmetric. winFlags: NCCL_WIN_DEFAULT or NCCL_WIN_COLL_SYMMETRIC. */
LANECAST_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                                 int winFlags);
LANECAST_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/** ncclInvalidUsage: Lanecast's operators are those above. Multiply before the call. */
LANECAST_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                                   ncclScalarResidence_t residence, ncclComm_t comm);
/** ncclInvalidArgument: there is none to destroy. */
LANECAST_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

#ifdef __cplusplus
}
#endif

#endif /* LANECAST_NCCL_H_ */
