/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of Lanecast's C interface for GPUs: collectives and messages in the order of a CUDA stream, as NCCL's;
 * lanecast/lanecast.h includes it.
 *
 * A device is a GPU's ordinal, a stream a cudaStream_t or CUstream, NULL the default one; no header of CUDA is needed.
 * Ranks are processes, each with a GPU of its own. What goes wrong on the device is told by later calls, by
 * lanecastCommSynchronize and by lanecastCommGetAsyncError. docs/reference/gpu.md says more. */
#ifndef LANECAST_GPU_H_
#define LANECAST_GPU_H_

#include "lanecast.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Opens the GPU of this rank's calls; without this, the first of them does. device: −1 is the calling thread's current
 * one. Collective. Errors: usage (no such GPU, two ranks with the same one), transport, timeout. */
LANECAST_API lanecastResult_t lanecastCommSetDevice(lanecastComm_t comm, int device);

/** Any collective of memory of GPU `device`, behind what `stream` holds; returns at once. The buffers belong to it
 * until what is enqueued behind it runs. Calls on one communicator run in the order in which they were made, whatever
 * their streams. `call` and its counts are read before. device: −1 has the driver asked whether the buffers lie on the
 * communicator's GPU. Errors: usage (also for another GPU than the communicator's), and those of the calls before. */
LANECAST_API lanecastResult_t lanecastEnqueue(const lanecastCall_t* call, int device, void* stream,
                                              lanecastComm_t comm);

/** Moves `n` messages of memory of GPU `device`, all at once and behind what `stream` holds; returns at once. Only the
 * two ranks of a message take part; those of one rank to another match in the order of the calls, and have tag 0. No
 * order of them within a call can deadlock. A rank may send to itself what it receives in the same call. They come
 * after earlier messages between the same two ranks in the same direction, whatever their streams; what else is
 * enqueued on other streams is not waited for. Where no GPU is open yet all ranks have to come. device, buffers: as
 * above. Errors: usage, and those of the calls before; transport where a message arrives of another size, told as all
 * that happens on the device. */
LANECAST_API lanecastResult_t lanecastEnqueueBatch(const lanecastMessage_t* messages, size_t n, int device,
                                                   void* stream, lanecastComm_t comm);

/** *has becomes 1 if the GPU is open, so that lanecastEnqueueBatch needs no other ranks than those of its messages.
 * Errors: usage. */
LANECAST_API lanecastResult_t lanecastCommHasMessages(lanecastComm_t comm, int* has);

/** *device becomes the ordinal of the GPU that is open, −1 where none is. Errors: usage (null pointers). */
LANECAST_API lanecastResult_t lanecastCommGetDevice(lanecastComm_t comm, int* device);

/** *has becomes 1 if the GPU is open and all ranks are on one host. Errors: usage. */
LANECAST_API lanecastResult_t lanecastCommHasPeerMemory(lanecastComm_t comm, int* has);

/** Blocks until all that is enqueued on this communicator has run. Errors: transport (a peer has gone, or has made
 * another call), timeout (a peer did not come in time). */
LANECAST_API lanecastResult_t lanecastCommSynchronize(lanecastComm_t comm);

/** *asyncError becomes what has gone wrong so far, transport or timeout, also where another call has told so before;
 * lanecastGetLastError has the text. Never blocks. Errors: usage (null pointers). */
LANECAST_API lanecastResult_t lanecastCommGetAsyncError(lanecastComm_t comm, lanecastResult_t* asyncError);

/** Memory on GPU `device` that the peers' GPUs read and write, zeroed: calls whose buffers lie in it, at equal places
 * on all ranks, copy nothing. Collective, of equal size on all ranks. *memory is set on success only. It goes with
 * `comm` at the latest. Errors: usage, transport, timeout. */
LANECAST_API lanecastResult_t lanecastMemAlloc(void** memory, size_t bytes, int device, lanecastComm_t comm);

/** Waits for this device's work and frees memory from lanecastMemAlloc on the same communicator; NULL is allowed. All
 * ranks do so, in the same order among their calls. Errors: usage (it is none). */
LANECAST_API lanecastResult_t lanecastMemFree(void* memory, lanecastComm_t comm);

/** Memory of a GPU that other ranks may map. */
typedef struct lanecastMemory* lanecastMemory_t;

/** Memory on GPU `device` for lanecastCommRegister, zeroed; *begin is where it lies. Both are set on success only. Not
 * collective. device: −1 is the calling thread's current one. error: may be NULL. Errors: usage, transport (the GPU has
 * no more). */
LANECAST_API lanecastResult_t lanecastMemoryCreate(lanecastMemory_t* memory, void** begin, size_t bytes, int device,
                                                   lanecastError_t* error);

/** The same for `bytes` at `begin` of the program's own memory of GPU `device`: of cudaMalloc, a whole allocation or a
 * part, or of cuMemCreate with handles that are file descriptors, up to 253 allocations side by side.
 * lanecastMemoryDestroy leaves it alone; the program frees it after that and the ranks' next call, in which peers let
 * go of it. Errors: usage (also where no other process can map it). */
LANECAST_API lanecastResult_t lanecastMemoryAdopt(lanecastMemory_t* memory, void* begin, size_t bytes, int device,
                                                  lanecastError_t* error);

/** Lets the peers of `comm` map the memory, which may be in several communicators. They do so in their next calls; from
 * then on calls of 16 MiB a message and more (512 KiB on GPUs that are not H100s or H200s) copy nothing where all
 * ranks' buffers lie in such memory, wherever each has put them. No rank need do as the others do. *registered becomes
 * 0 where it would be of no use: before the GPU is open, among several hosts, on another GPU, and beyond 256 of them.
 * Errors: usage, those of the calls before, and transport (a peer cannot be handed the files of memory by cuMemCreate).
 */
LANECAST_API lanecastResult_t lanecastCommRegister(lanecastMemory_t memory, int* registered, lanecastComm_t comm);

/** Waits for this device's work and gives the memory back, which is freed once all peers have let go of it, in their
 * next calls or with their communicators. By any thread; NULL is allowed. */
LANECAST_API lanecastResult_t lanecastMemoryDestroy(lanecastMemory_t memory);

/** How many calls on registered memory have copied nothing; of what has run. Errors: usage (null pointers). */
LANECAST_API lanecastResult_t lanecastCommRegisteredCalls(lanecastComm_t comm, unsigned long long* calls);

/** From now on nothing that this thread asks of a GPU spoils what other threads capture, in whatever mode: one that
 * looks at events, say. CUDA's relaxed mode, without its headers. error: may be NULL. Errors: usage (no driver). */
LANECAST_API lanecastResult_t lanecastThreadBesideCaptures(lanecastError_t* error);

#ifdef __cplusplus
}
#endif

#endif /* LANECAST_GPU_H_ */
