// SPDX-License-Identifier: Apache-2.0
// How a library's own collective adds up an average, so that no sum ends at the type's range.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "transport/groups.h"

namespace lanecast {

/// Of fp32 and fp64, which libraries add; null for what they add as we do.
GroupAdd* average_adder(DType dtype, std::uint32_t overrange);

}  // namespace lanecast
