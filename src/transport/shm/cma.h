// SPDX-License-Identifier: Apache-2.0
// Single copy: a message straight from the memory of the process that sends it to that of the one that receives it
// (cross-memory attach).
#pragma once

#include <cstddef>

#include "transport/span_cursor.h"

namespace lanecast::shm {

/// Copies up to `bytes` bytes from `remote`, spans in the memory of process `pid`, to `local`, in one system call.
/// Returns how many, 0 where the process is ending; both cursors move by as much. Throws TransportError where the
/// system refuses.
std::size_t read_remote(int pid, SpanCursor& local, SpanCursor& remote, std::size_t bytes);

/// Copies the next `bytes` bytes of `local` to `remote`, in the memory of process `pid`. False where the system
/// refuses, or the process is ending; a part may have been written.
bool write_remote(int pid, SpanCursor& local, std::byte* remote, std::size_t bytes);

}  // namespace lanecast::shm
