# SPDX-License-Identifier: Apache-2.0
"""One rank under mpiexec whose MPI refuses to send from some time on; see mpi_refuses.c. Argument: start or run."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lanecast

comm = lanecast.init(transports="mpi", timeout_s=10.0)
comm.all_reduce(np.ones(1000))
comm.barrier()
refuses = comm.rank == int(os.environ["REFUSING_RANK"])
if refuses:
    Path(os.environ["REFUSES_FROM"]).touch()


def make_call() -> None:
    started = comm.all_reduce(np.ones(100_000), async_op=sys.argv[1] == "start")
    if started is not None:
        started.wait()


def error_of(call: Callable[[], object]) -> str:
    try:
        call()
    except lanecast.Error as error:
        return f"{type(error).__name__}: {error}"
    return ""


first, second = error_of(make_call), error_of(comm.barrier)
assert first.startswith("TransportError" if refuses else "TimeoutError"), first
assert "sending to rank" in first or not refuses, first
assert "has failed" in second, second
print("as it should be", flush=True)
