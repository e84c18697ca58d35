// SPDX-License-Identifier: Apache-2.0
// What stands behind the C interface's handles, and the border that no exception crosses.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "helpers/crew.h"
#include "lanecast/lanecast.h"
#include "runtime/communicator/persistent.h"

struct lanecastComm {
  std::unique_ptr<lanecast::Communicator> core;
  // Shared with the works, which may be waited for after the communicator has gone.
  std::shared_ptr<lanecastError_t> error = std::make_shared<lanecastError_t>();
  std::map<void*, std::shared_ptr<lanecast::peers::SharedMemory>> memory;  // from lanecastMemAlloc
  std::unique_ptr<lanecast::helpers::Crew> crew;                           // null: calls go by this process alone

  // Of calls on the host's memory.
  void run(const lanecast::Call& call, std::optional<lanecast::BesideOthers> beside = {}) {
    const lanecast::Interrupt& interrupt = core->options().interrupt;
    if (crew && crew->takes(call)) return crew->run(call, interrupt, beside);
    core->run(call, interrupt, beside);
  }
  std::shared_ptr<lanecast::Work> start(const lanecast::Call& call) {
    const lanecast::Interrupt& interrupt = core->options().interrupt;
    return crew && crew->takes(call) ? crew->start(call, interrupt) : core->start(call, interrupt);
  }
  std::string waits_for(const lanecast::Work& work) {
    std::string text = crew ? crew->waits_for(work) : "";
    return text.empty() ? core->waits_for(work) : text;
  }
};

struct lanecastMemory {
  std::shared_ptr<lanecast::peers::WindowMemory> core;
};

struct lanecastPersistent {
  std::unique_ptr<lanecast::PersistentCall> core;
  std::shared_ptr<lanecastError_t> error;
  lanecast::Interrupt interrupt;
};

struct lanecastWork {
  std::shared_ptr<lanecast::Work> core;
  std::shared_ptr<lanecastError_t> error;
};

namespace lanecast::capi {

/// Keeps the text without allocating: it may say that there is no memory.
inline lanecastResult_t failed(lanecastResult_t result, std::string_view text, lanecastError_t* error) {
  if (error) error->text[text.copy(error->text, sizeof error->text - 1)] = '\0';
  return result;
}

/// Runs `body` and turns what it throws into a result and a text; `error` may be null.
template <class Body>
lanecastResult_t guarded(lanecastError_t* error, const Body& body) noexcept {
  try {
    body();
    return lanecastSuccess;
  } catch (const UsageError& e) {
    return failed(lanecastUsageError, e.what(), error);
  } catch (const TransportError& e) {
    return failed(lanecastTransportError, e.what(), error);
  } catch (const TimeoutError& e) {
    return failed(lanecastTimeoutError, e.what(), error);
  } catch (const std::bad_alloc&) {
    return failed(lanecastTransportError, "out of memory", error);
  } catch (const std::exception& e) {
    return failed(lanecastInternalError, e.what(), error);
  } catch (...) {
    return failed(lanecastInternalError, "an exception of an unknown type", error);
  }
}

/// The same for calls on a communicator.
template <class Body>
lanecastResult_t guarded(lanecastComm_t comm, const Body& body) noexcept {
  return comm ? guarded(comm->error.get(), [&] { body(*comm->core); }) : lanecastUsageError;
}

/// lanecastCommSplit, with fewer multiprocessors for the parts; max_ctas: 0: as many as the parent takes.
lanecastResult_t split(lanecastComm_t comm, int color, int key, int max_ctas, lanecastComm_t* newcomm);

/// End what NCCL's names keep of a communicator that goes: what ncclCommRegister has left, and messages of this
/// thread's open group.
void forget_registrations(lanecastComm_t comm);
void forget_messages(lanecastComm_t comm);

[[noreturn]] inline void refuse(const Communicator& comm, const std::string& what) {
  throw UsageError("rank " + std::to_string(comm.rank()) + ": " + what);
}

/// Where a started call goes and what becomes of it.
struct Target {
  lanecastComm_t comm;
  lanecastWork_t* work;
};

/// `begin` starts something on the communicator and returns its work.
template <class Begin>
lanecastResult_t start(const Target& target, const Begin& begin) {
  return guarded(target.comm, [&](Communicator& core) {
    if (!target.work) refuse(core, "work: null pointer");
    auto work = std::make_unique<lanecastWork>();
    work->error = target.comm->error;
    work->core = begin(core);
    *target.work = work.release();
  });
}

/// C lets any number pass for an enumerator; the casts keep the compiler from assuming otherwise.
inline DType dtype_from(lanecastDataType_t datatype, const Communicator& comm) {
  const auto number = static_cast<unsigned>(datatype);
  if (number >= kDTypes) refuse(comm, "datatype: there is none with the number " + std::to_string(number));
  return static_cast<DType>(number);
}

}  // namespace lanecast::capi
