/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of Lanecast's C interface for collectives of one's own, made of three primitives and shaped to the machine;
 * lanecast/lanecast.h includes it.
 *
 * A composition is the same data on every rank. Numbered parts lie in the ranks' buffers; a part has the same number
 * and count wherever it lies. Primitives between two fences happen side by side and read what was there before; in the
 * end each receive buffer holds the newest values of its parts. Errors: usage, with a text at `error`, which may be
 * NULL; a refused primitive changes nothing. docs/reference/composition.md says more. */
#ifndef LANECAST_COMPOSITIONS_H_
#define LANECAST_COMPOSITIONS_H_

#include "lanecast.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A collective of one's own. */
typedef struct lanecastComposition* lanecastComposition_t;

/** Numbers of parts, in the order in which they lie in a buffer. */
typedef struct {
  const int* parts;
  size_t n;
} lanecastParts_t;

/** The cut-th of `cuts` equal cuts of a part; {part, 0, 1} is all of it. */
typedef struct {
  int part;
  int cut;
  int cuts;
} lanecastBlock_t;

/** Ranks, and how many. */
typedef struct {
  const int* ranks;
  size_t n;
} lanecastRanks_t;

/** inputs, outputs: nranks lists each, of what lies in the ranks' send and receive buffers. */
LANECAST_API lanecastResult_t lanecastCompositionCreate(lanecastComposition_t* composition, int nranks,
                                                        const lanecastParts_t* inputs, const lanecastParts_t* outputs,
                                                        lanecastError_t* error);

/** With the buffers of a collective: part 0 where all share in a vector (all-reduce, broadcast, reduce), part
 * s · nranks + d from rank s to rank d (all-to-all), else part r of rank r. root: of those that have one. */
LANECAST_API lanecastResult_t lanecastCompositionOf(lanecastComposition_t* composition, lanecastCollective_t buffers,
                                                    int nranks, int root, lanecastError_t* error);

/** Every leaf gets what `root` has of the blocks. */
LANECAST_API lanecastResult_t lanecastComposeMulticast(lanecastComposition_t composition, int root,
                                                       lanecastRanks_t leaves, const lanecastBlock_t* blocks,
                                                       size_t nblocks, lanecastError_t* error);

/** `root` gets the leaves' values of the blocks, reduced by `op`; an average divides by the number of leaves. */
LANECAST_API lanecastResult_t lanecastComposeReduce(lanecastComposition_t composition, lanecastRanks_t leaves, int root,
                                                    const lanecastBlock_t* blocks, size_t nblocks, lanecastRedOp_t op,
                                                    lanecastError_t* error);

/** What follows reads what was written so far; orders nothing that does not depend on each other. */
LANECAST_API lanecastResult_t lanecastComposeFence(lanecastComposition_t composition);

/** Frees it; calls compiled from it stay. NULL is allowed. */
LANECAST_API lanecastResult_t lanecastCompositionFree(lanecastComposition_t composition);

/** How to run a composition: equal on every rank, and without influence on what it means. */
typedef struct {
  size_t size;            /* of this struct, in bytes: its version */
  const int* hierarchy;   /* factors of the number of ranks, outermost level first; NULL: `topology` */
  size_t levels;          /* how many factors */
  const char* topology;   /* "3+2+4", as in lanecastConfig_t; NULL: the communicator's */
  const char* transports; /* one, or one per level of the hierarchy: "mpi,shm"; NULL: the communicator's */
  int stripe;             /* ranks of a node that carry a part each of what leaves it; 0: all of them */
  int ring;               /* domains that form an open chain; 1: trees only; 0: by size, see docs/reference */
  int chunks;             /* pipeline depth; 0: by size */
  int verify;             /* 1: prove the plans of all ranks first; 0: do not; -1: where there are at most 32 */
} lanecastKnobs_t;

#define LANECAST_KNOBS_INITIALIZER {sizeof(lanecastKnobs_t), NULL, 0, NULL, NULL, 0, 0, 0, -1}

/** Shapes a composition to the machine and binds it to this rank's buffers, for lanecastPersistentRun and …Start.
 * sendbuff, recvbuff: the CPU's memory; a GPU's: lanecastCompileOnDevice. counts: elements of each part, equal on every
 * rank; read before it returns, as is the composition. knobs: NULL for the defaults. Waits for nobody. Errors: usage,
 * internal (a proof fails); their text: lanecastGetLastError. */
LANECAST_API lanecastResult_t lanecastCompile(lanecastComposition_t composition, const void* sendbuff, void* recvbuff,
                                              const size_t* counts, lanecastDataType_t datatype,
                                              const lanecastKnobs_t* knobs, lanecastComm_t comm,
                                              lanecastPersistent_t* persistent);

/* ---- Of a GPU's memory, in the order of streams: as in lanecast/gpu.h ---------------------------------------------*/

/** A composition made ready for a GPU's memory: a shape of buffers, and what the GPU is to do with them. */
typedef struct lanecastCompiled* lanecastCompiled_t;

/** The same for memory of GPU `device`. sendbuff, recvbuff: buffers of the calls to come, or others that overlap in the
 * same way. knobs: `transports` has to be NULL. The first one on a communicator waits for its other ranks; later ones
 * wait for nobody. device: as lanecastEnqueue has it. *compiled is set on success only. Errors: as above, and those of
 * the calls before. */
LANECAST_API lanecastResult_t lanecastCompileOnDevice(lanecastComposition_t composition, const void* sendbuff,
                                                      void* recvbuff, const size_t* counts, lanecastDataType_t datatype,
                                                      const lanecastKnobs_t* knobs, int device, lanecastComm_t comm,
                                                      lanecastCompiled_t* compiled);

/** Makes the call on `stream`, behind what it holds; returns at once. The buffers belong to it until what is enqueued
 * behind it runs. All ranks make it, in the same order among their calls on the communicator; the calls run in that
 * order whatever their streams, and several may be under way, with other buffers each. Errors: usage (a buffer on
 * another GPU, none where the rank has parts, buffers that overlap in another way), and those of the calls before. */
LANECAST_API lanecastResult_t lanecastCompiledEnqueue(const void* sendbuff, void* recvbuff, lanecastCompiled_t compiled,
                                                      void* stream);

/** The same on a stream of the communicator's own, behind what `stream` holds now: `stream` goes on beside it. The
 * buffers belong to the call until a stream is behind lanecastCompiledWait. */
LANECAST_API lanecastResult_t lanecastCompiledStart(const void* sendbuff, void* recvbuff, lanecastCompiled_t compiled,
                                                    void* stream);

/** Orders what `stream` holds from now on behind the last start; nothing where there was none. Returns at once: for the
 * host's own wait there is lanecastCommSynchronize. Errors: usage (null pointer), transport. */
LANECAST_API lanecastResult_t lanecastCompiledWait(lanecastCompiled_t compiled, void* stream);

/** Frees it, before its communicator; calls under way and graphs that have captured some go on. NULL is allowed. */
LANECAST_API lanecastResult_t lanecastCompiledFree(lanecastCompiled_t compiled);

#ifdef __cplusplus
}
#endif

#endif /* LANECAST_COMPOSITIONS_H_ */
