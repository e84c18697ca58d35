# SPDX-License-Identifier: Apache-2.0
"""One rank of `lanecast learn measure --device cuda` where there is no GPU: tensors, and algorithms, are the CPU's.

Arguments: the database, sizes, seconds, and how many hosts the ranks take themselves to be on.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

from gpu_bench_rank import StandIn
from lanecast import Communicator, _core
from lanecast.bench import backends
from lanecast.bench.arenas import Arenas
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.payload import Payload
from lanecast.explanation import Candidate
from lanecast.learn import gpu_measuring
from lanecast.learn.gpu_grid import GpuGrid
from lanecast.profiles.profile import Shape
from lanecast.profiles.shape import shape_of
from lanecast.tune import gpu_tuner

ENGINES = _core.PEER_ENGINES
lanecast_call = backends.lanecast_call


def on_cpu(comm: Communicator, payload: Payload, algorithm: str) -> Any:
    """Whatever the engine's name."""
    return lanecast_call(comm, payload, "" if algorithm in ENGINES else algorithm)


def main(file: str, sizes: str, seconds: str, hosts: str) -> None:
    ranks = GpuRanks(StandIn(), "gloo")
    comm: Any = ranks.comm
    comm.synchronize = lambda: None  # of device work, of which there is none
    known = shape_of(comm._core)
    shape = Shape(known.lanecast, known.cpu, known.cores, int(hosts), known.topology, known.transports)
    core = mock.Mock(wraps=comm._core, hosts=1, kind_of_gpu="GPU on the host", topology=comm.topology)

    def explained(collective: str, count: int) -> Any:
        names = [name for name in _core.algorithms_for(collective, comm.topology) if not _core.has_library(name)]
        return mock.Mock(candidates=[Candidate(name, 1, 1e-3, 1e-4, measured=False) for name in names])

    grid = GpuGrid(_core.KINDS, [int(size) for size in sizes.split(",")], 2, float(seconds), round_s=1e-4)
    with (
        mock.patch.object(backends, "lanecast_call", on_cpu),
        mock.patch.object(Arenas, "_symmetric", Arenas._plain),
        mock.patch.object(gpu_tuner, "first_call"),
        mock.patch.object(gpu_measuring, "first_call"),
        mock.patch.object(gpu_measuring, "shape_of", return_value=shape),
        mock.patch.object(comm, "explain_on_gpu", explained),
        mock.patch.object(comm, "_core", core, create=True),
    ):
        done = gpu_measuring.measure(ranks, grid, Path(file), lambda what: print(what, file=sys.stderr))
    print(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
