# SPDX-License-Identifier: Apache-2.0
"""A rank of a job whose leaders make communicators and let them go, so many times; rank 0 says what has grown.

Arguments: how many times, processes of each leader. The helpers are ranks, so nothing is started for a communicator.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import lanecast

RESIDENT_BYTES = 32 << 20  # of growth that is none: allocators and caches keep some
ONE_MORE = 6  # files of a communicator that is still there
TURNS_TO_WARM_UP = 10


def held(pid: int) -> tuple[int, int, int]:
    """Files, threads, and mappings of helpers' memory of a process."""
    of = Path(f"/proc/{pid}")
    maps = (of / "maps").read_text().count("lanecast-helpers")
    return len(list((of / "fd").iterdir())), len(list((of / "task").iterdir())), maps


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def comes_down_to(pid: int, was: tuple[int, int, int]) -> bool:
    """Does it hold no more than that and one more communicator's? A helper lets go of what has ended by and by."""
    until = time.monotonic() + 200
    while any(now > before + ONE_MORE for now, before in zip(held(pid), was, strict=True)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def turn(processes: int) -> list[int]:
    """Make one, use it, and let it go; the processes that took part."""
    comm: Any = lanecast.init(processes_per_gpu=processes, allow_shared_cores=True)
    comm.use_processes(processes)
    vector = comm.shared_empty(5000)
    vector[:] = comm.rank
    comm.all_reduce(vector)
    assert (vector == comm.size * (comm.size - 1) // 2).all()
    return [os.getpid(), *(helper.pid for helper in comm.helpers)]


def main() -> None:
    times, processes = int(sys.argv[1]), int(sys.argv[2])
    for _ in range(TURNS_TO_WARM_UP):
        pids = turn(processes)
    gc.collect()
    before = {pid: (held(pid), resident(pid)) for pid in pids}
    for _ in range(times):
        assert turn(processes) == pids
    gc.collect()
    last: Any = lanecast.init(processes_per_gpu=processes, allow_shared_cores=True)
    for pid, (was, bytes_before) in before.items():
        assert comes_down_to(pid, was), f"{pid} held {was} files, threads and mappings, and then {held(pid)}"
        grown = resident(pid) - bytes_before
        assert grown < RESIDENT_BYTES, f"{pid} has grown by {grown} bytes"
    last.barrier()  # nobody's helpers end before they have been looked at
    if last.rank == 0:
        print(f"{times} times, and nothing has grown", flush=True)


if __name__ == "__main__":
    main()
