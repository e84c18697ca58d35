// SPDX-License-Identifier: Apache-2.0
// Memory that holds nothing, for simulations that only want to know the time: thousands of ranks with gigabytes each.
#pragma once

#include <cstddef>

namespace lanecast::simulator {

/// From now on all large arrays, of all ranks, of Lanecast and of SMPI's own collectives, are the same few megabytes.
void pretend_memory();

/// A call's buffer.
std::byte* pretended_buffer(std::size_t bytes);

}  // namespace lanecast::simulator
