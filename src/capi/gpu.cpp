// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of a GPU's memory, and memory that GPUs share.
#include "capi/call.h"
#include "capi/messages.h"
#include "device/gpu/beside_captures.h"
#include "device/gpu/device.h"
#include "peers/shared_memory.h"
#include "peers/window_memory.h"

namespace lanecast::capi {
namespace {

std::shared_ptr<gpu::Device> device_for(const std::string& function, int device) {
  if (device < -1) throw UsageError(function + ": device: " + std::to_string(device) + " is no GPU's number");
  return gpu::Device::open(device == -1 ? gpu::current_ordinal() : device);
}

}  // namespace
}  // namespace lanecast::capi

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastCommSetDevice(lanecastComm_t comm, int device) {
  return guarded(comm, [&](Communicator& core) {
    if (device < -1) refuse(core, "device: " + std::to_string(device) + " is no GPU's number");
    core.gpu().open(device == -1 ? gpu::current_ordinal() : device);
  });
}

lanecastResult_t lanecastEnqueue(const lanecastCall_t* call, int device, void* stream, lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) {
    require(call, "call", core);
    if (device < -1) refuse(core, "device: " + std::to_string(device) + " is no GPU's number");
    core.enqueue(call_from(*call, core), {.stream = stream, .device = device});
  });
}

lanecastResult_t lanecastEnqueueBatch(const lanecastMessage_t* messages, size_t n, int device, void* stream,
                                      lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) {
    if (device < -1) refuse(core, "device: " + std::to_string(device) + " is no GPU's number");
    core.enqueue(transfers_from(messages, n, core), {.stream = stream, .device = device});
  });
}

lanecastResult_t lanecastCommHasMessages(lanecastComm_t comm, int* has) {
  return guarded(comm, [&](Communicator& core) {
    require(has, "has", core);
    *has = core.gpu().has_messages() ? 1 : 0;
  });
}

lanecastResult_t lanecastCommGetDevice(lanecastComm_t comm, int* device) {
  return guarded(comm, [&](Communicator& core) {
    require(device, "device", core);
    *device = core.gpu().device().value_or(-1);
  });
}

lanecastResult_t lanecastCommHasPeerMemory(lanecastComm_t comm, int* has) {
  return guarded(comm, [&](Communicator& core) {
    require(has, "has", core);
    *has = core.gpu().has_peers() ? 1 : 0;
  });
}

lanecastResult_t lanecastCommSynchronize(lanecastComm_t comm) {
  return guarded(comm, [](Communicator& core) { core.gpu().synchronize(core.options().interrupt); });
}

lanecastResult_t lanecastCommGetAsyncError(lanecastComm_t comm, lanecastResult_t* asyncError) {
  if (!comm || !asyncError) return lanecastUsageError;
  *asyncError = guarded(comm, [](Communicator& core) { core.gpu().check(); });
  return lanecastSuccess;
}

lanecastResult_t lanecastMemAlloc(void** memory, size_t bytes, int device, lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) {
    require(memory, "memory", core);
    if (device < 0) refuse(core, "device: " + std::to_string(device) + " is no GPU's number");
    const std::shared_ptr<peers::SharedMemory> made = core.gpu().allocate_symmetric(device, bytes);
    void* const begin = reinterpret_cast<void*>(made->own());
    comm->memory.emplace(begin, made);
    *memory = begin;
  });
}

lanecastResult_t lanecastMemFree(void* memory, lanecastComm_t comm) {
  return guarded(comm, [&](const Communicator& core) {
    if (memory && comm->memory.erase(memory) == 0) refuse(core, "memory: not the start of any from lanecastMemAlloc");
  });
}

lanecastResult_t lanecastMemoryCreate(lanecastMemory_t* memory, void** begin, size_t bytes, int device,
                                      lanecastError_t* error) {
  return guarded(error, [&] {
    if (!memory || !begin) throw UsageError("lanecastMemoryCreate: memory, begin: null pointer");
    auto made = std::make_unique<lanecastMemory>();
    made->core = std::make_shared<peers::WindowMemory>(device_for("lanecastMemoryCreate", device), bytes);
    *begin = reinterpret_cast<void*>(made->core->begin());
    *memory = made.release();
  });
}

lanecastResult_t lanecastMemoryAdopt(lanecastMemory_t* memory, void* begin, size_t bytes, int device,
                                     lanecastError_t* error) {
  return guarded(error, [&] {
    if (!memory || !begin) throw UsageError("lanecastMemoryAdopt: memory, begin: null pointer");
    auto made = std::make_unique<lanecastMemory>();
    made->core = std::make_shared<peers::WindowMemory>(device_for("lanecastMemoryAdopt", device),
                                                       reinterpret_cast<gpu::Address>(begin), bytes, nullptr);
    *memory = made.release();
  });
}

lanecastResult_t lanecastCommRegister(lanecastMemory_t memory, int* registered, lanecastComm_t comm) {
  return guarded(comm, [&](Communicator& core) {
    require(memory, "memory", core);
    require(registered, "registered", core);
    *registered = core.gpu().open_window(memory->core) ? 1 : 0;
  });
}

lanecastResult_t lanecastMemoryDestroy(lanecastMemory_t memory) {
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] {
    const std::unique_ptr<lanecastMemory> owned(memory);
    if (memory) memory->core->retire();
  });
}

lanecastResult_t lanecastCommRegisteredCalls(lanecastComm_t comm, unsigned long long* calls) {
  return guarded(comm, [&](Communicator& core) {
    require(calls, "calls", core);
    *calls = core.gpu().calls_by_windows();
  });
}

lanecastResult_t lanecastThreadBesideCaptures(lanecastError_t* error) {
  return guarded(error, [] { gpu::BesideCaptures::for_good(*gpu::Driver::open()); });
}
