// SPDX-License-Identifier: Apache-2.0
// What needs no communicator: names of results, and the version.
#include "lanecast/lanecast.h"

const char* lanecastGetErrorString(lanecastResult_t result) {
  switch (result) {
    case lanecastSuccess:
      return "success";
    case lanecastUsageError:
      return "usage error: the call asks for something impossible";
    case lanecastTransportError:
      return "transport error: a peer, the machine or a library below failed";
    case lanecastTimeoutError:
      return "timeout: a peer did not come in time";
    case lanecastInternalError:
      return "internal error: please report it";
  }
  return "not a lanecastResult_t";
}

lanecastResult_t lanecastGetVersion(int* version) {
  if (!version) return lanecastUsageError;
  *version = LANECAST_VERSION_CODE;
  return lanecastSuccess;
}
