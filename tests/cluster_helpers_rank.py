# SPDX-License-Identifier: Apache-2.0
"""One of two ranks whose helpers the library starts. Argument: a folder by which the two find each other."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np

import lanecast
from lanecast import job, nics
from lanecast.helpers.leading import Leader

COUNT = 2 << 20
FOLDER = Path(sys.argv[1])
turns = itertools.count()


def all_gather(mine: bytes) -> bytes:
    turn = next(turns)
    part = FOLDER / f"{turn} of {rank}.part"
    part.write_bytes(mine)
    part.rename(part.with_suffix(""))
    all_parts = [FOLDER / f"{turn} of {r}" for r in range(2)]
    while not all(each.exists() for each in all_parts):
        time.sleep(1e-3)
    return b"".join(each.read_bytes() for each in all_parts)


found = job.detect()
assert found is not None
assert found.rank is not None
rank = found.rank
nics.pin()
comm = lanecast.from_all_gather(
    rank, 2, all_gather, processes_per_gpu=2, allow_shared_cores=True, transports="ucx", links="assume"
)
assert isinstance(comm, Leader)
comm.use_processes(2)
vector = np.full(COUNT, rank + 1, np.float32)
comm.all_reduce(vector)
assert set(vector) == {3.0}
