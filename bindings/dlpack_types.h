// SPDX-License-Identifier: Apache-2.0
// Element types as DLPack numbers them.
#pragma once

#include <nanobind/ndarray.h>

#include <optional>

#include "base/dtype.h"

namespace lanecast {

/// Nothing for what no reduction knows.
std::optional<DType> dtype_of(const nanobind::dlpack::dtype& dtype);

}  // namespace lanecast
