// SPDX-License-Identifier: Apache-2.0
// Single copy: reading a message straight from the memory of the process that sends it (cross-memory attach).
#pragma once

#include <cstddef>

#include "transport/span_cursor.h"

namespace lanecast::shm {

/// Copies up to `bytes` bytes from `remote`, spans in the memory of process `pid`, to `local`, in one system call.
/// Returns how many, 0 where the process is ending; both cursors move by as much. Throws TransportError where the
/// system refuses.
std::size_t read_remote(int pid, SpanCursor& local, SpanCursor& remote, std::size_t bytes);

}  // namespace lanecast::shm
