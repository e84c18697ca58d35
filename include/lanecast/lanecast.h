/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanecast's C interface, shaped like NCCL's: hierarchical collectives of the memory of CPUs and GPUs, and messages
 * between two ranks. C99 or C++.
 *
 *     lanecastComm_t comm;
 *     lanecastCommInitMPI(&comm, NULL, NULL);                                    // under mpiexec or srun
 *     lanecastAllReduce(in, out, count, lanecastFloat32, lanecastSum, comm);
 *     lanecastCommDestroy(comm);
 *
 * Every function returns a lanecastResult_t and throws nothing. Counts are in elements, times in seconds. Each rank has
 * its own communicator, and all ranks make the same calls on it in the same order, with equal counts, type and
 * operator. One thread at a time uses a communicator and what was started on it, lanecastRunBesideOthers apart;
 * different communicators are independent.
 */
#ifndef LANECAST_LANECAST_H_
#define LANECAST_LANECAST_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LANECAST_API __attribute__((visibility("default")))
#else
#define LANECAST_API
#endif

/** The ranks that call collectives together. */
typedef struct lanecastComm* lanecastComm_t;

/** A started call. */
typedef struct lanecastWork* lanecastWork_t;

/** A collective bound to its buffers, to be made many times. */
typedef struct lanecastPersistent* lanecastPersistent_t;

/** How a call ended. After any error but lanecastUsageError the communicator has failed: each further call on it
 * returns lanecastTransportError, and only lanecastCommDestroy is of use. A new communicator works. */
typedef enum {
  lanecastSuccess = 0,
  lanecastUsageError = 1,     /* asked for something impossible; nothing has moved, the communicator is as before */
  lanecastTransportError = 2, /* the machine or a library below failed: a lost peer, no memory, an MPI error */
  lanecastTimeoutError = 3,   /* a deadline passed; the text says who waited for whom, in which step */
  lanecastInternalError = 4   /* a promise inside the library was broken: please report it */
} lanecastResult_t;

/** Element types. */
typedef enum {
  lanecastFloat64 = 0,
  lanecastFloat32 = 1,
  lanecastFloat16 = 2,
  lanecastBfloat16 = 3,
  lanecastFloat8e4m3 = 4, /* OCP e4m3fn: no infinity */
  lanecastFloat8e5m2 = 5,
  lanecastInt8 = 6,
  lanecastUint8 = 7,
  lanecastInt16 = 8,
  lanecastUint16 = 9,
  lanecastInt32 = 10,
  lanecastUint32 = 11,
  lanecastInt64 = 12,
  lanecastUint64 = 13
} lanecastDataType_t;

/** Reduction operators. Integers wrap; min and max hand on NaN; 16- and 8-bit floats are added in fp32 within a step.
 */
typedef enum {
  lanecastSum = 0,
  lanecastProd = 1,
  lanecastMin = 2,
  lanecastMax = 3,
  lanecastAvg = 4,  /* floats only; finite for finite inputs, whatever their sum is */
  lanecastBand = 5, /* bitwise: integers only */
  lanecastBor = 6,
  lanecastBxor = 7
} lanecastRedOp_t;

/** Takes the text of an error where there is no communicator yet to ask. */
typedef struct {
  char text[1024]; /* ends with a zero; longer texts are cut */
} lanecastError_t;

/** Asked by a thread of the program that waits in a call, some 20 ms apart; anything but 0 ends the wait. Where a call
 * was under way the communicator then fails, and the peers hear `why`, which the function may fill. It makes no other
 * call on the communicator than lanecastCommAbort. lanecastWait does not ask: the buffers are the call's until it ends,
 * which lanecastTest tells. `ctx`: as given with the function. */
typedef int (*lanecastInterruptFn)(lanecastError_t* why, void* ctx);

/** Options of a communicator, equal on every rank. Start from LANECAST_CONFIG_INITIALIZER, so that fields that later
 * versions add have their defaults. What is left at its default here is taken from the environment, where the variable
 * is set: LANECAST_TOPOLOGY, LANECAST_TRANSPORTS, LANECAST_ALGORITHM, LANECAST_CHUNKS, LANECAST_TIMEOUT,
 * LANECAST_REPRODUCIBLE, LANECAST_CHECK_CALLS, LANECAST_TRACE_DIR, LANECAST_TRACE_STEPS, LANECAST_MAX_CTAS,
 * LANECAST_GPU_MESSAGES, LANECAST_LINKS, LANECAST_ALLOW_SHARED_GPU, LANECAST_PROFILE, LANECAST_PROCESSES_PER_GPU,
 * LANECAST_ALLOW_SHARED_CORES, LANECAST_UCX_LANES, LANECAST_GPU_NICS. */
typedef struct {
  size_t size;            /* of this struct, in bytes: its version */
  const char* topology;   /* "2x4": 2 nodes of 4 ranks; "2x2x2", "3+2+4", "2x4:cyclic"; NULL: the hosts of the ranks */
  const char* transports; /* "shm", or one per level, outermost first: "mpi,shm"; NULL: the fastest to each peer */
  const char* algorithm;  /* "hierarchical(ring,direct)", …: of collectives that have it; NULL: chosen per call */
  int chunks;             /* slices of a call that overlap on the levels; 0: chosen per call */
  double timeout_s;       /* seconds without progress after which a call gives up; 0: 300 */
  lanecastError_t* error; /* receives the text when making the communicator fails; NULL: nobody wants it */
  int reproducible;       /* 1: sums have the same bits whatever is chosen: docs/explanation/reproducible.md; 0: no */
  int check_calls;        /* 1: compare what the ranks call; 0: do not */
  const char* trace_dir;  /* where a rank writes its last calls when it fails or ends; NULL: nowhere */
  int trace_steps;        /* 1: what it does for each step, too; 0: no */
  int mpi;                /* lanecastCommInitAllGather: 1: the ranks are ranks of one MPI job too; 0: nobody knows */
  int allow_shared_gpu;   /* 1: ranks may share a GPU, to try things out; 0: they may not */
  int max_ctas;           /* multiprocessors of a GPU that a call takes at most; 0: as many as serve speed */
  const char* kernel_cache;  /* folder that keeps compiled GPU kernels; NULL: they are compiled for each process */
  const char* gpu_libraries; /* folders of NVRTC and NCCL beside the loader's path, apart by ':'; NULL: none */
  const char* profile; /* of `lanecast tune` or `lanecast learn train`, or of pins, to choose by: a file, several with
                          commas between them, a folder, or "none"; rank 0's counts; NULL: what fits in the user's
                          cache */
  const char* gpu_messages; /* of a GPU's memory, between hosts: "staged", through the host, or "direct", on the GPU,
                               also where the MPI or UCX then calls its driver; NULL: direct where none is called */
  lanecastInterruptFn interrupt; /* of this communicator and its splits; NULL: only the deadline ends a wait */
  void* interrupt_ctx;
  int job_size; /* lanecastCommInitAllGather of some of a job's ranks: how many the job has. The variables describe the
                   job then, and the communicator takes of them what lanecastCommSplit would; 0: it has all ranks */
  const int* job_ranks; /* which ranks of the job these are, nranks numbers; NULL where job_size is 0 */
  int job_options;      /* 1: topology, transports and algorithm above describe the job as well; 0: this communicator */
  lanecastError_t* left_aside; /* receives what variables, and files in the user's cache, say that is of no use here,
                                  and why, a line each; empty: nothing. NULL: it is written to stderr */
  int processes_per_gpu; /* this process and so many less one beside it, its helpers, each of which moves a slice of the
                            all-reduces, all-gathers and reduce-scatters of the host's memory where that is faster:
                            docs/explanation/processes-per-gpu.md. The library starts them, under an MPI's launcher as
                            well; 1: none; 0: as LANECAST_PROCESSES_PER_GPU says for communicators of a whole job, else
                            1 */
  int allow_shared_cores; /* 1: helpers may share cores, to try things out; 0: they may not */
  const char* python;     /* a Python with this version of the package, which runs helpers; NULL: "python3" */
} lanecastConfig_t;

#define LANECAST_CONFIG_INITIALIZER \
  {sizeof(lanecastConfig_t),        \
   NULL,                            \
   NULL,                            \
   NULL,                            \
   0,                               \
   0.0,                             \
   NULL,                            \
   0,                               \
   1,                               \
   NULL,                            \
   0,                               \
   0,                               \
   0,                               \
   0,                               \
   NULL,                            \
   NULL,                            \
   NULL,                            \
   NULL,                            \
   NULL,                            \
   NULL,                            \
   0,                               \
   NULL,                            \
   0,                               \
   NULL,                            \
   0,                               \
   0,                               \
   NULL}

/* ---- Communicators: collective calls over the ranks named ---------------------------------------------------------*/

/** An all-gather of small byte strings: every rank hands in `bytes` bytes at `in` and gets those of all ranks, in rank
 * order, at `out`. Blocks; returns 0, or anything else to say that it failed. `ctx`: as given with the function. */
typedef int (*lanecastAllGatherFn)(const void* in, void* out, size_t bytes, void* ctx);

/** Makes a communicator of `nranks` processes that know each other only through `all_gather`, which is called while
 * this communicator is made, and at no other time. rank: 0 … nranks − 1. config: NULL for the defaults; with
 * config->mpi messages may go over MPI, as below, whatever the order of the ranks there. On any error *comm becomes
 * NULL. Errors: usage (arguments, options, a LANECAST_… variable that does not exist), transport. */
LANECAST_API lanecastResult_t lanecastCommInitAllGather(lanecastComm_t* comm, int rank, int nranks,
                                                        lanecastAllGatherFn all_gather, void* ctx,
                                                        const lanecastConfig_t* config);

/** Makes a communicator of the ranks of an MPI communicator; messages never mix with the caller's. mpi_comm: address of
 * an MPI_Comm, or NULL for MPI_COMM_WORLD. The MPI library is found at run time (the one in the process, else that of
 * the launcher, or LANECAST_MPI_LIBRARY). If MPI does not run yet it is started, with MPI_THREAD_MULTIPLE, and ends
 * with the process. config: as above. Errors: as above; usage also for an intercommunicator (merge its groups first),
 * MPI_COMM_NULL, one that has been freed, and after MPI_Finalize. */
LANECAST_API lanecastResult_t lanecastCommInitMPI(lanecastComm_t* comm, const void* mpi_comm,
                                                  const lanecastConfig_t* config);

/** Makes one communicator of all ranks with the same color, ordered by key, then by rank. Collective over `comm`; calls
 * started on it must have been waited for. A negative color takes no part: *newcomm becomes NULL. The new communicator
 * has the options of `comm` and what remains of its topology, and may outlive it. Errors: usage, transport, timeout. */
LANECAST_API lanecastResult_t lanecastCommSplit(lanecastComm_t comm, int color, int key, lanecastComm_t* newcomm);

/** Frees a communicator, also one that has failed; NULL is allowed. Calls under way are given up: their lanecastWait
 * returns lanecastTransportError. Not a barrier; allowed before and after MPI_Finalize. */
LANECAST_API lanecastResult_t lanecastCommDestroy(lanecastComm_t comm);

/** Seconds without progress after which the calls made from now on give up; each rank sets its own. Errors: usage. */
LANECAST_API lanecastResult_t lanecastCommSetTimeout(lanecastComm_t comm, double timeout_s);

/** Fails the communicator: calls under way end with lanecastTransportError, also a blocking one in another thread, and
 * the peers hear who aborted and `reason` instead of waiting, those outside a call in their next one. Waits for no
 * peer. Any thread may call it at any time, as no other function but lanecastCommWriteTrace, but no handler of a
 * signal: set a flag there. Errors: usage. */
LANECAST_API lanecastResult_t lanecastCommAbort(lanecastComm_t comm, const char* reason);

/** Writes what this rank has called, and what it waits for, to a file in `directory`, for `lanecast trace`: of a
 * program that hangs, a thread of its own can, as trace_dir does where a communicator fails or ends. Any thread may
 * call it at any time, but no handler of a signal. Errors: usage, transport. */
LANECAST_API lanecastResult_t lanecastCommWriteTrace(lanecastComm_t comm, const char* directory);

/** Number of ranks. Errors: usage (null pointers). */
LANECAST_API lanecastResult_t lanecastCommCount(lanecastComm_t comm, int* count);

/** This process' rank, 0 … count − 1. Errors: usage (null pointers). */
LANECAST_API lanecastResult_t lanecastCommUserRank(lanecastComm_t comm, int* rank);

/* ---- Collectives: return when this rank's buffers may be used again, which is no barrier --------------------------
 *
 * In-place, as in NCCL: the send buffer lies where the receive buffer holds this rank's share (all-gather: sendbuff ==
 * recvbuff + rank · sendcount elements), or the other way round for a reduce-scatter; all-reduce: both are equal. Any
 * other overlap is a usage error. Out-of-place, and for the shares of other ranks, the send buffer is never changed.
 * Empty buffers may be NULL. All may return usage, transport and timeout errors. */

/** Gathers every rank's `sendcount` elements into every rank's recvbuff, in rank order: nranks · sendcount elements. */
LANECAST_API lanecastResult_t lanecastAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                                lanecastDataType_t datatype, lanecastComm_t comm);

/** Reduces sendbuff (nranks · recvcount elements) over all ranks; rank r keeps the r-th `recvcount` elements. */
LANECAST_API lanecastResult_t lanecastReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                    lanecastDataType_t datatype, lanecastRedOp_t op,
                                                    lanecastComm_t comm);

/** Reduces `count` elements over all ranks; every rank ends with the result. */
LANECAST_API lanecastResult_t lanecastAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                                lanecastDataType_t datatype, lanecastRedOp_t op, lanecastComm_t comm);

/** lanecastAllGather where rank r brings counts[r] elements. counts: nranks numbers, equal on every rank; read before
 * the call returns. In-place: sendbuff is at the sum of the counts of lower ranks. */
LANECAST_API lanecastResult_t lanecastAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                 lanecastDataType_t datatype, lanecastComm_t comm);

/** lanecastReduceScatter where rank r keeps counts[r] elements; counts as in lanecastAllGatherV. */
LANECAST_API lanecastResult_t lanecastReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                     lanecastDataType_t datatype, lanecastRedOp_t op,
                                                     lanecastComm_t comm);

/** Copies `count` elements of rank `root` to recvbuff of every rank. sendbuff: read on the root only. In-place: both
 * are equal there. */
LANECAST_API lanecastResult_t lanecastBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                                lanecastDataType_t datatype, int root, lanecastComm_t comm);

/** Reduces `count` elements over all ranks into recvbuff of rank `root`; elsewhere recvbuff is not used. */
LANECAST_API lanecastResult_t lanecastReduce(const void* sendbuff, void* recvbuff, size_t count,
                                             lanecastDataType_t datatype, lanecastRedOp_t op, int root,
                                             lanecastComm_t comm);

/** Gathers every rank's `sendcount` elements into recvbuff of rank `root`, in rank order; elsewhere it is not used. */
LANECAST_API lanecastResult_t lanecastGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                             lanecastDataType_t datatype, int root, lanecastComm_t comm);

/** Sends the r-th `recvcount` elements of sendbuff of rank `root` to rank r; elsewhere sendbuff is not used. */
LANECAST_API lanecastResult_t lanecastScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                              lanecastDataType_t datatype, int root, lanecastComm_t comm);

/** Sends the r-th `count` elements of sendbuff to rank r, and gathers what the ranks send here, in rank order: both
 * buffers hold nranks · count elements. Never in-place. */
LANECAST_API lanecastResult_t lanecastAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                               lanecastDataType_t datatype, lanecastComm_t comm);

/** lanecastGather and lanecastScatter where rank r has counts[r] elements; counts as in lanecastAllGatherV. */
LANECAST_API lanecastResult_t lanecastGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                              lanecastDataType_t datatype, int root, lanecastComm_t comm);
LANECAST_API lanecastResult_t lanecastScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                               lanecastDataType_t datatype, int root, lanecastComm_t comm);

/** lanecastAllToAll where this rank sends sendcounts[r] elements to rank r and receives recvcounts[r] from it; each
 * rank gives its own, nranks numbers each, which have to agree in pairs. */
LANECAST_API lanecastResult_t lanecastAllToAllV(const void* sendbuff, const size_t* sendcounts, void* recvbuff,
                                                const size_t* recvcounts, lanecastDataType_t datatype,
                                                lanecastComm_t comm);

/* ---- Started collectives: return at once ---------------------------------------------------------------------------
 *
 * A thread of the library moves them; calls on one communicator run in the order in which they were made, blocking ones
 * too. The buffers belong to the call until lanecastWait or lanecastTest says that it is done. Over MPI they need
 * MPI_THREAD_MULTIPLE, else a usage error. *work is set on success only and goes to lanecastWait once. */

LANECAST_API lanecastResult_t lanecastAllGatherStart(const void* sendbuff, void* recvbuff, size_t sendcount,
                                                     lanecastDataType_t datatype, lanecastComm_t comm,
                                                     lanecastWork_t* work);
LANECAST_API lanecastResult_t lanecastReduceScatterStart(const void* sendbuff, void* recvbuff, size_t recvcount,
                                                         lanecastDataType_t datatype, lanecastRedOp_t op,
                                                         lanecastComm_t comm, lanecastWork_t* work);
LANECAST_API lanecastResult_t lanecastAllReduceStart(const void* sendbuff, void* recvbuff, size_t count,
                                                     lanecastDataType_t datatype, lanecastRedOp_t op,
                                                     lanecastComm_t comm, lanecastWork_t* work);
LANECAST_API lanecastResult_t lanecastAllGatherVStart(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                      lanecastDataType_t datatype, lanecastComm_t comm,
                                                      lanecastWork_t* work);
LANECAST_API lanecastResult_t lanecastReduceScatterVStart(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                          lanecastDataType_t datatype, lanecastRedOp_t op,
                                                          lanecastComm_t comm, lanecastWork_t* work);

/* ---- Barrier ------------------------------------------------------------------------------------------------------*/

/** Returns when every rank has called it; a collective in its order among the others. Errors: transport, timeout. */
LANECAST_API lanecastResult_t lanecastBarrier(lanecastComm_t comm);
LANECAST_API lanecastResult_t lanecastBarrierStart(lanecastComm_t comm, lanecastWork_t* work);

/* ---- Messages between two ranks, of which the others need not know -------------------------------------------------
 *
 * The messages of two ranks match by tag, equal tags in the order of their posting; they never meet a collective and
 * wait for none that was started before. tag: 0 to 16383 on any MPI, far more elsewhere. A send and its receive are of
 * the same number of bytes, else a transport error on the receiver at least. Zero elements are a message too. */

/** Sends `count` elements to rank `peer`; returns when sendbuff may be used again. Errors: usage, transport, timeout.
 */
LANECAST_API lanecastResult_t lanecastSend(const void* sendbuff, size_t count, lanecastDataType_t datatype, int peer,
                                           int tag, lanecastComm_t comm);

/** Receives `count` elements from rank `peer`. Errors: usage, transport, timeout. */
LANECAST_API lanecastResult_t lanecastRecv(void* recvbuff, size_t count, lanecastDataType_t datatype, int peer, int tag,
                                           lanecastComm_t comm);

/** *arrived becomes 1 when a message from rank `peer` with this tag has come for a receive that is not posted yet, else
 * 0. Never blocks. Errors: usage, transport. */
LANECAST_API lanecastResult_t lanecastProbe(int peer, int tag, lanecastComm_t comm, int* arrived);

/** One message of a batch: a send where sendbuff is set, a receive where recvbuff is; never both. */
typedef struct {
  const void* sendbuff;
  void* recvbuff;
  size_t count; /* elements */
  lanecastDataType_t datatype;
  int peer;
  int tag;
} lanecastMessage_t;

/** Moves `n` messages at once, as NCCL does between ncclGroupStart and ncclGroupEnd: none waits for another, so no
 * order of them on the ranks can deadlock. A message of no elements needs a buffer too. Errors: usage, transport,
 * timeout. */
LANECAST_API lanecastResult_t lanecastBatch(const lanecastMessage_t* messages, size_t n, lanecastComm_t comm);

/** The same, returning at once; `messages` is read before. One started send or receive is a batch of one. */
LANECAST_API lanecastResult_t lanecastBatchStart(const lanecastMessage_t* messages, size_t n, lanecastComm_t comm,
                                                 lanecastWork_t* work);

/* ---- Persistent collectives: bound once, as by MPI_Allreduce_init -------------------------------------------------*/

typedef enum {
  lanecastCollAllGather = 0,
  lanecastCollReduceScatter = 1,
  lanecastCollAllReduce = 2,
  lanecastCollBroadcast = 3,
  lanecastCollReduce = 4,
  lanecastCollGather = 5,
  lanecastCollScatter = 6,
  lanecastCollAllToAll = 7
} lanecastCollective_t;

/** A collective as the functions above take it; zero what it does not have. */
typedef struct {
  lanecastCollective_t collective;
  const void* sendbuff;
  void* recvbuff;
  size_t count;         /* as its function's: sendcount, recvcount or count */
  const size_t* counts; /* NULL, or those of the …V function; an all-to-all's sendcounts */
  lanecastDataType_t datatype;
  lanecastRedOp_t op;
  int root;
  const size_t* recvcounts; /* NULL, or an all-to-all's */
} lanecastCall_t;

/** Starts any collective, as the …Start functions do for three of them. `call` and its counts are read before. */
LANECAST_API lanecastResult_t lanecastStart(const lanecastCall_t* call, lanecastComm_t comm, lanecastWork_t* work);

/** Why a call on the CPU's memory takes the algorithm it takes: its choice, what decided (pinned, learned or the cost
 * model), and all candidates with their predicted times, as text for people. Of `call` only what decides is read: not
 * the buffers. text: receives it, ended with a zero, and cut to `bytes` bytes; length: receives that of the whole text
 * without the zero, NULL: nobody wants it. Not collective, and the same on all ranks. Errors: usage. */
LANECAST_API lanecastResult_t lanecastExplain(const lanecastCall_t* call, lanecastComm_t comm, char* text, size_t bytes,
                                              size_t* length);

/** Runs any collective and blocks, in programs of several threads: unlike during all other functions, another thread
 * may use the communicator meanwhile, and what it starts or sends does not wait for this call to end. The order of the
 * collectives still has to be that of the other ranks. timeout_s: seconds without progress after which this call gives
 * up; 0: the communicator's. error: receives the text, as lanecastGetLastError does not; NULL: nobody wants it. Errors:
 * as the collective's own. */
LANECAST_API lanecastResult_t lanecastRunBesideOthers(const lanecastCall_t* call, double timeout_s, lanecastComm_t comm,
                                                      lanecastError_t* error);

/** lanecastBarrier in the same way. */
LANECAST_API lanecastResult_t lanecastBarrierBesideOthers(double timeout_s, lanecastComm_t comm,
                                                          lanecastError_t* error);

/** Plans the call; from its second run on, none plans or allocates. Collective, in its order among the calls. `call` is
 * read before it returns. *persistent is set on success only. Errors: as the collective's own. */
LANECAST_API lanecastResult_t lanecastPersistentInit(const lanecastCall_t* call, lanecastComm_t comm,
                                                     lanecastPersistent_t* persistent);

/** Makes the call and blocks: the collective with what the buffers hold now. Errors: transport, timeout. */
LANECAST_API lanecastResult_t lanecastPersistentRun(lanecastPersistent_t persistent);

/** Makes the call and returns at once; the buffers belong to it until lanecastPersistentWait returns. Errors: usage
 * (the start before is under way), transport. */
LANECAST_API lanecastResult_t lanecastPersistentStart(lanecastPersistent_t persistent);

/** Blocks until the last start is done, at once where there was none, and returns how it ended. */
LANECAST_API lanecastResult_t lanecastPersistentWait(lanecastPersistent_t persistent);

/** Frees it, not while a start is under way, and before its communicator. NULL is allowed. */
LANECAST_API lanecastResult_t lanecastPersistentFree(lanecastPersistent_t persistent);

/** Other buffers of the same shape for a call from lanecastCompile, from its next run or start on. Errors: usage (a
 * start is under way; they overlap in another way than the first ones). */
LANECAST_API lanecastResult_t lanecastPersistentRebind(lanecastPersistent_t persistent, const void* sendbuff,
                                                       void* recvbuff);

/* ---- Started calls of every kind ----------------------------------------------------------------------------------*/

/** Blocks until the call is done, frees `work` in every case, and returns how the call ended. */
LANECAST_API lanecastResult_t lanecastWait(lanecastWork_t work);

/** *done becomes 1 when the call is done, also by an error, which lanecastWait then returns; else 0. Never blocks. */
LANECAST_API lanecastResult_t lanecastTest(lanecastWork_t work, int* done);

/** What keeps a started call, as text for people: the ranks that it waits for and in which step, or the call before it;
 * empty where it is done. text: receives it, ended with a zero, and cut to `bytes` bytes. Any thread may call it beside
 * other calls on `comm`, on which `work` was started, and not beside lanecastWait of that work. Errors: usage. */
LANECAST_API lanecastResult_t lanecastWaitsFor(lanecastWork_t work, lanecastComm_t comm, char* text, size_t bytes);

/** Hears how a started call has ended. `error`: its text, empty after lanecastSuccess, valid until this returns. */
typedef void (*lanecastDoneFn)(lanecastResult_t result, const char* error, void* ctx);

/** Has `done` called once, when the call is done: at once, or by a thread of the library, which moves no other call
 * meanwhile and must not be made to wait for one; so `done` makes no calls of this library. At most one for each work,
 * which still goes to lanecastWait, and not before `done` has been called. Errors: usage (null pointers). */
LANECAST_API lanecastResult_t lanecastOnDone(lanecastWork_t work, lanecastDoneFn done, void* ctx);

/* ---- Errors and version ------------------------------------------------------------------------------------------*/

/** What a result means, in a few words; never NULL. The text stays valid. */
LANECAST_API const char* lanecastGetErrorString(lanecastResult_t result);

/** Text of the last error of a call on `comm` or of a call started there: it names the rank, the argument or the peer,
 * and what to do. Empty when there was none; valid until the next error on `comm` or its end. With NULL it explains
 * where the texts of failed inits are: in lanecastConfig_t::error. Never NULL. */
LANECAST_API const char* lanecastGetLastError(lanecastComm_t comm);

/** Version of the library: 10000 · major + 100 · minor + patch. Errors: usage (null pointer). */
LANECAST_API lanecastResult_t lanecastGetVersion(int* version);

#ifdef __cplusplus
}
#endif

#include "compositions.h"
#include "gpu.h"

#endif /* LANECAST_LANECAST_H_ */
