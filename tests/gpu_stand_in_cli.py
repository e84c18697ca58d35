# SPDX-License-Identifier: Apache-2.0
"""`lanecast …` where there is no GPU: device cuda is the CPU, and Gloo is in NCCL's and torch's place."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from gpu_bench_rank import StandIn
from lanecast.bench import backends, gpu_processes, runner
from lanecast.bench.arenas import Arenas
from lanecast.bench.device import Call
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.hiccl import limits
from lanecast.bench.payload import Payload
from lanecast.cli import main


def ranks(shared_gpus: bool = False, **options: Any) -> GpuRanks:
    made = GpuRanks(StandIn(), "gloo", shared_gpus=shared_gpus, **options)
    comm: Any = made.comm
    comm.synchronize = lambda: None  # of device work, of which there is none
    made.takes_gpus = lambda mpi: True  # type: ignore[method-assign]  # any MPI takes the CPU's memory
    return made


def start_ranks(count: int, shared_gpus: bool = False) -> NoReturn:
    assert not shared_gpus, "on one host"
    sys.exit(gpu_processes.run_ranks([sys.executable, *sys.argv], count))


def symmetric_kernel(kernel: str, ranks: GpuRanks, payload: Payload) -> tuple[Call, Any]:
    """Every kernel is the call of torch.distributed."""
    return backends._distributed(ranks, payload), payload.output


if __name__ == "__main__":
    replaced: Any = runner
    replaced.GpuRanks = ranks
    replaced.gpu_processes.start_ranks = start_ranks
    backends._symmetric_kernel = symmetric_kernel
    limits.MESSAGE_BYTES[True] = 1 << 20
    for kind in ("_symmetric", "_windows", "_torch_symmetric"):
        setattr(Arenas, kind, Arenas._plain)
    main()
