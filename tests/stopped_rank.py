# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that is stopped while rank 0 waits. Arguments: a folder, the deadline in seconds, "init" or "call".

Goes on when the folder holds `begin`, rank 1 once more when it holds `go`; leaves its process id in pid.RANK.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import lanecast
from lanecast import job, startup

folder, timeout_s, waits_in = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
found = job.detect()
assert found is not None
rank = found.rank
startup.mpi()  # has no deadline


def until(name: str) -> None:
    while not (folder / name).exists():
        time.sleep(0.02)


def begin() -> None:
    (folder / f"pid.{rank}").write_text(str(os.getpid()))
    until("begin")
    (folder / f"begun.{rank}").touch()
    if rank == 1:
        until("go")


if waits_in == "init":
    begin()
comm = lanecast.init(transports="mpi", timeout_s=timeout_s)
if waits_in == "call":
    begin()
tensor = np.full(1000, comm.rank + 1.0)
comm.all_reduce(tensor)
assert (tensor == 3).all()
