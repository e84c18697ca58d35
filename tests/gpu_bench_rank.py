# SPDX-License-Identifier: Apache-2.0
"""One rank of `lanecast bench --device cuda` where there is no GPU: tensors on the CPU, and Gloo in NCCL's place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lanecast.bench import runner
from lanecast.bench.device import Host
from lanecast.bench.gpu_ranks import GpuRanks
from lanecast.bench.options import parse_sizes
from lanecast.bench.protocol import SideBySide
from lanecast.bench.settings import Settings, parse_backend


class StandIn(Host):
    """A device that does all at once."""

    queues = True  # or there would be no host's times

    def __init__(self) -> None:
        import torch

        self.device = torch.device("cpu")

    def pinned(self, size_bytes: int) -> Any:
        import torch

        return torch.empty(size_bytes, dtype=torch.uint8)

    def captured(self, call: Callable[[], object], times: int) -> Callable[[], object]:
        def replay() -> None:
            for _ in range(times):
                call()

        return replay


def main(file: str, collectives: str, dtype: str, in_place: str) -> None:
    settings = Settings(
        collectives=tuple(collectives.split(",")),
        sizes=parse_sizes("1000,64K"),
        backends=tuple(
            parse_backend(name, "cuda") for name in ("lanecast", "lanecast+host", "lanecast+composed", "nccl")
        ),
        dtype=dtype,
        rounds=2,
        in_place=in_place == "in-place",
        baseline="nccl",
        graph=True,
        round_s=2e-3,
    )
    ranks = GpuRanks(StandIn(), "gloo")
    comm: Any = ranks.comm
    comm.synchronize = lambda: None  # of device work, of which there is none
    rows = [row for found in runner.compare_on_gpus(settings, ranks, SideBySide()) for row in found]
    if ranks.rank == 0:
        Path(file).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
