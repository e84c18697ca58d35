// SPDX-License-Identifier: Apache-2.0
// The latest calls of one rank, where its peers can read them: in shared memory, or in that of a process with threads.
#pragma once

#include "base/board.h"
#include "base/call_note.h"

namespace lanecast {

/// Who compares is in one of its peer's last calls, mostly the last.
using CallBoard = Board<CallNote, 32>;

}  // namespace lanecast
