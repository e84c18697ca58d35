# SPDX-License-Identifier: Apache-2.0
"""A rank that forks while it has communicators and a thread that moves its calls."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable
from typing import NoReturn

import numpy as np

import lanecast
from lanecast import Communicator

REFUSAL = r"rank \d: this process was forked from the one that made the communicator"


def use(comm: Communicator) -> None:
    values = np.full(3, comm.rank + 1.0)
    comm.all_reduce(values)
    work = comm.all_reduce(values, async_op=True)
    assert work is not None
    work.wait()
    assert (values == 6).all(), values


def fork_and_go_on(held: list[Communicator], end: Callable[[int], NoReturn]) -> str:
    """They are held in a list so that the forked process can let go of them before it ends."""
    use(held[0])
    forked = os.fork()
    if forked == 0:
        status = 1
        try:
            held[0].all_reduce(np.ones(3))
        except lanecast.UsageError as error:
            status = 0 if re.match(REFUSAL, str(error)) else 2
        held.clear()
        gc.collect()
        end(status)
    _, status = os.waitpid(forked, 0)
    assert status == 0, status
    use(held[0])
    return "fine"


if __name__ == "__main__":
    made = [lanecast.init(timeout_s=60.0), lanecast.init(timeout_s=60.0, transports="mpi")]
    fork_and_go_on(made[1:], os._exit)
    print(fork_and_go_on(made, sys.exit), flush=True)
