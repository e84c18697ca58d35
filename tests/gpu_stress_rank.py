# SPDX-License-Identifier: Apache-2.0
"""One rank under mpiexec with emulated NICs: calls on GPUs one behind the other, whose messages differ in length.

Arguments: a folder of kernels, a seed, the number of calls. Prints "right", or what is wrong.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import numpy as np

import lanecast
from gpu_stand_in import Tensor
from lanecast import Communicator

COUNTS = (0, 1, 1000, 50_000, 140_001, 600_000)


def brought(rank: int, count: int) -> np.ndarray[Any, Any]:
    return ((np.arange(count) * 7 + rank * 13) % 1021).astype(np.float32)


def wrong_calls(comm: Communicator, seed: int, calls: int) -> list[str]:
    """Which of the calls, enqueued together, end with other elements than they should."""
    rng, made = random.Random(seed), []
    for k in range(calls):
        count, chunks = rng.choice(COUNTS), rng.choice((0, 1, 3, 8, 16))
        kind = rng.choice(("all_reduce", "all_gather", "reduce_scatter"))
        everyone = [brought(rank, count * (comm.size if kind == "reduce_scatter" else 1)) for rank in range(comm.size)]
        source = Tensor(everyone[comm.rank], "float32", comm.rank)
        target = source
        if kind == "all_reduce":
            comm.all_reduce(source, chunks=chunks)
            wanted = sum(everyone)
        elif kind == "all_gather":
            target = Tensor(np.zeros(count * comm.size, np.float32), "float32", comm.rank)
            comm.all_gather_into_tensor(target, source, chunks=chunks)
            wanted = np.concatenate(everyone)
        else:
            target = Tensor(np.zeros(count, np.float32), "float32", comm.rank)
            comm.reduce_scatter_tensor(target, source, chunks=chunks)
            wanted = sum(everyone)[comm.rank * count : (comm.rank + 1) * count]
        made.append((f"call {k}: {kind} of {count} in {chunks}", source, target, wanted))
    comm.synchronize()
    return [what for what, _, target, wanted in made if not np.array_equal(target.array, wanted)]


if __name__ == "__main__":
    kernels, seed, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rank = int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    communicator = lanecast.init(device=rank, kernel_cache=kernels, timeout_s=60)
    found = wrong_calls(communicator, seed, calls)
    print(("\n".join(found) or "right") + "\n", end="", flush=True)  # in one write: the ranks share a pipe
