// SPDX-License-Identifier: Apache-2.0
// What becomes of calls that somebody holds: started ones, and persistent ones.
#include "capi/handles.h"

using namespace lanecast;
using namespace lanecast::capi;

lanecastResult_t lanecastWait(lanecastWork_t work) {
  if (!work) return lanecastUsageError;
  const std::unique_ptr<lanecastWork> owned(work);
  return guarded(owned->error.get(), [&] { Communicator::wait(*owned->core); });
}

lanecastResult_t lanecastTest(lanecastWork_t work, int* done) {
  if (!work || !done) return lanecastUsageError;
  return guarded(work->error.get(), [&] { *done = work->core->done() ? 1 : 0; });
}

lanecastResult_t lanecastWaitsFor(lanecastWork_t work, lanecastComm_t comm, char* text, size_t bytes) {
  if (!work || !comm || (bytes > 0 && !text)) return lanecastUsageError;
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] {
    const std::string whole = comm->waits_for(*work->core);
    if (bytes > 0) text[whole.copy(text, bytes - 1)] = '\0';
  });
}

lanecastResult_t lanecastOnDone(lanecastWork_t work, lanecastDoneFn done, void* ctx) {
  if (!work || !done) return lanecastUsageError;
  // Not by `work`, which the listener's caller may free. The work is done when its listener is called.
  Work* const core = work->core.get();
  return guarded(work->error.get(), [=] {
    core->on_done([=] {
      lanecastError_t error{};
      const lanecastResult_t result = guarded(&error, [&] { core->wait_for(std::chrono::seconds(0)); });
      done(result, error.text, ctx);
    });
  });
}

lanecastResult_t lanecastPersistentRun(lanecastPersistent_t persistent) {
  if (!persistent) return lanecastUsageError;
  return guarded(persistent->error.get(), [&] { persistent->core->run(persistent->interrupt); });
}

lanecastResult_t lanecastPersistentStart(lanecastPersistent_t persistent) {
  if (!persistent) return lanecastUsageError;
  return guarded(persistent->error.get(), [&] { persistent->core->start(persistent->interrupt); });
}

lanecastResult_t lanecastPersistentWait(lanecastPersistent_t persistent) {
  if (!persistent) return lanecastUsageError;
  return guarded(persistent->error.get(), [&] { persistent->core->wait(persistent->interrupt); });
}

lanecastResult_t lanecastPersistentRebind(lanecastPersistent_t persistent, const void* sendbuff, void* recvbuff) {
  if (!persistent) return lanecastUsageError;
  return guarded(persistent->error.get(), [&] { persistent->core->rebind(sendbuff, recvbuff); });
}

lanecastResult_t lanecastPersistentFree(lanecastPersistent_t persistent) {
  return guarded(static_cast<lanecastError_t*>(nullptr), [&] { delete persistent; });
}
