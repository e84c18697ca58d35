// SPDX-License-Identifier: Apache-2.0
// NCCL's numbers for types, operators and results, and this library's: for both doors that have NCCL's names, the
// header lanecast/nccl.h and the library that is preloaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "lanecast/nccl.h"

namespace lanecast::capi {

inline ncclResult_t nccl_result(lanecastResult_t result) {
  switch (result) {
    case lanecastSuccess:
      return ncclSuccess;
    case lanecastUsageError:
      return ncclInvalidUsage;
    case lanecastTransportError:
      return ncclSystemError;
    case lanecastTimeoutError:
      return ncclRemoteError;
    case lanecastInternalError:
      break;
  }
  return ncclInternalError;
}

/// Numbers that do not exist become ones that lanecast.h refuses, with a text.
template <class To, std::size_t n>
To translated(const std::array<To, n>& table, unsigned number) {
  return number < n ? table[number] : static_cast<To>(INT32_MAX);
}

inline lanecastDataType_t type_from_nccl(int type) {
  constexpr std::array kTypes{lanecastInt8,    lanecastUint8,    lanecastInt32,      lanecastUint32,
                              lanecastInt64,   lanecastUint64,   lanecastFloat16,    lanecastFloat32,
                              lanecastFloat64, lanecastBfloat16, lanecastFloat8e4m3, lanecastFloat8e5m2};
  return translated(kTypes, static_cast<unsigned>(type));
}

inline lanecastRedOp_t op_from_nccl(int op) {
  return translated(std::array{lanecastSum, lanecastProd, lanecastMax, lanecastMin, lanecastAvg},
                    static_cast<unsigned>(op));
}

}  // namespace lanecast::capi
