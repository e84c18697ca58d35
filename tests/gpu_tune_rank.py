# SPDX-License-Identifier: Apache-2.0
"""One rank of `lanecast tune --device cuda` where there is no GPU: tensors, and algorithms, are the CPU's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from unittest import mock

from gpu_bench_rank import StandIn
from lanecast import _core
from lanecast.bench import backends
from lanecast.bench.arenas import Arenas
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.payload import Payload
from lanecast.communicator import Communicator
from lanecast.tune import gpu_tuner

lanecast_call = backends.lanecast_call


def on_cpu(comm: Communicator, payload: Payload, _: str) -> Any:
    """Whatever the engine's name."""
    return lanecast_call(comm, payload, "")


def main(file: str, sizes: str) -> None:
    ranks = GpuRanks(StandIn(), "gloo")
    for comm in (ranks.comm, made := ranks.communicator("tuned")):
        comm.synchronize = lambda: None  # type: ignore[method-assign]  # of device work, of which there is none
    core = mock.Mock(wraps=ranks.comm._core, hosts=1, kind_of_gpu="GPU on the host", topology=ranks.comm.topology)
    given = tuple(int(size) for size in sizes.split(","))
    effort = gpu_tuner.Calibration(sizes=given, gain_sizes=(3000,), rounds=2, gain_rounds=1, round_s=1e-4)
    with (
        mock.patch.object(backends, "lanecast_call", on_cpu),
        mock.patch.object(gpu_tuner, "lanecast_call", on_cpu),
        mock.patch.object(Arenas, "_symmetric", Arenas._plain),
        mock.patch.object(gpu_tuner, "first_call"),
        mock.patch.object(ranks, "communicator", return_value=made),
        mock.patch.object(ranks.comm, "_core", core, create=True),
    ):
        gpu_tuner.calibrate(ranks, _core.KINDS, Path(file), gain=True, effort=effort)


if __name__ == "__main__":
    main(*sys.argv[1:])
