// SPDX-License-Identifier: Apache-2.0
// What stands behind the C interface's handles, and the border that no exception crosses.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include "base/error.h"
#include "lanecast/lanecast.h"
#include "runtime/communicator.h"

struct lanecastComm {
  std::unique_ptr<lanecast::Communicator> core;
  // Shared with the works, which may be waited for after the communicator has gone.
  std::shared_ptr<lanecastError_t> error = std::make_shared<lanecastError_t>();
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

}  // namespace lanecast::capi
