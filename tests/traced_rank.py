# SPDX-License-Identifier: Apache-2.0
"""One rank of 2 emulated nodes of 2, whose trace a test reads. Argument: how many seconds rank 1 is late in the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lanecast
from lanecast import Communicator


def by_library(comm: Communicator) -> None:
    if comm.rank == 1:
        time.sleep(float(sys.argv[1]))
    comm.all_reduce(np.ones(40_000), algorithm="hierarchical(ring,mpi)")


OWN: dict[str, Any] = {"algorithm": "hierarchical(ring,direct)", "chunks": 2}
CALLS: list[Callable[[Communicator], Any]] = [
    lambda comm: comm.all_reduce(np.ones(40_000), **OWN),
    lambda comm: comm.all_gather_into_tensor(np.ones(4 * 10_000), np.ones(10_000), **OWN),
    lambda comm: comm.reduce_scatter_tensor(np.ones(10_000), np.ones(4 * 10_000), **OWN),
    by_library,
]


def main() -> None:
    comm = lanecast.init(topology="2x2", transports="mpi,shm", timeout_s=60)
    for call in CALLS:
        call(comm)


if __name__ == "__main__":
    main()
