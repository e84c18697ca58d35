# SPDX-License-Identifier: Apache-2.0
"""A rank whose child process makes a communicator in the way that the first argument names, while MPI runs in the rank
("started") or is only open ("opened"), as the second one says."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

import lanecast
from lanecast.mpi_library import find_mpi

CHILD = """
import lanecast
alone = lanecast.from_all_gather(0, 1, lambda mine: mine)
try:
    print(f"made {lanecast.init(timeout_s=5.0)}")
except lanecast.UsageError as error:
    print(f"refused, beside {alone.size}: {error}")
"""


def forked() -> str:
    reads, writes = os.pipe()
    if os.fork() == 0:
        try:
            said = f"made {lanecast.init(timeout_s=5.0)}"
        except lanecast.UsageError as error:
            said = f"refused, beside 1: {error}"
        os.write(writes, said.encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as stream:
        return stream.read()


def started(*, close_fds: bool) -> str:
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, close_fds=close_fds, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


if __name__ == "__main__":
    how, when = sys.argv[1:]
    comm = lanecast.init(timeout_s=60.0) if when == "started" else None
    find_mpi()
    said = forked() if how == "forked" else started(close_fds=how == "closed")
    comm = comm or lanecast.init(timeout_s=60.0)
    total = np.full(1000, comm.rank + 1.0)
    comm.all_reduce(total)
    assert (total == comm.size * (comm.size + 1) / 2).all()
    os.write(1, f"rank {comm.rank}: {said}\n".encode())  # in one piece
