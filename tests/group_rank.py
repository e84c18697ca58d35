# SPDX-License-Identifier: Apache-2.0
"""One rank under mpiexec that makes the first call named, for which MPI makes a communicator; see mpi_strikes.c.

Leaves how that ended in a file, and ends as programs do. Arguments: the call, a folder, the deadline in seconds, how
many ranks go on.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import lanecast
from lanecast import Communicator


def split(comm: Communicator) -> None:
    comm.split(0)


def of_mpi(comm: Communicator) -> None:
    comm.all_reduce(np.ones(100), algorithm="mpi")


def started(comm: Communicator) -> None:
    work = comm.all_reduce(np.ones(100), algorithm="mpi", async_op=True)
    assert work is not None
    work.wait()


def main() -> None:
    call, folder, timeout_s, others = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    comm = lanecast.init(transports="mpi", timeout_s=timeout_s)
    comm.all_reduce(np.ones(100_000), algorithm="direct")
    (folder / f"pid.{comm.rank}").write_text(str(os.getpid()))
    begin = time.monotonic()
    error = "", ""
    try:
        globals()[call](comm)
    except lanecast.Error as caught:
        error = type(caught).__name__, str(caught)
    unfinished = folder / f"unfinished.{comm.rank}"
    unfinished.write_text(json.dumps([*error, time.monotonic() - begin]))
    unfinished.rename(folder / f"outcome.{comm.rank}")
    try:
        comm.barrier()
        sys.exit("the communicator takes calls")
    except lanecast.TransportError as caught:
        if "has failed" not in str(caught):
            sys.exit(str(caught))
    give_up_s = time.monotonic() + 100  # Open MPI ends all when the first ends
    while len(list(folder.glob("outcome.*"))) < others and time.monotonic() < give_up_s:
        time.sleep(0.02)


if __name__ == "__main__":
    main()
