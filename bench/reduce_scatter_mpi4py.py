# SPDX-License-Identifier: Apache-2.0
"""The same ring reduce-scatter in Python, with mpi4py and numpy, and in Lanecast's core, side by side.

    python bench/reduce_scatter_mpi4py.py --json reduce_scatter_mpi4py.json

PCCL (first version, figure 6) finds nearly 4x between the two languages at 1024 ranks. One job per rank count; within
each the rounds of all contenders alternate.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import lanecast
from jobs import rows_of_job
from lanecast import launch
from lanecast.bench import machine, tables
from lanecast.bench.cases import Case
from lanecast.bench.measure import Bench, Contender, Row
from lanecast.bench.options import parse_sizes
from lanecast.bench.outputs import write_json
from lanecast.bench.payload import Payload
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import Backend, Settings
from lanecast.buffers import Array
from lanecast.job import under_launcher
from lanecast.startup import mpi


def ring_reduce_scatter(comm: Any, payload: Payload, scratch: list[Array]) -> None:
    """Each block travels once around the ring to its owner and gathers every rank's contribution on the way."""
    ranks, rank, count = comm.size, comm.rank, payload.output.size
    block = [payload.input[k * count : (k + 1) * count] for k in range(ranks)]
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    partial_sum = block[left]
    for step in range(ranks - 1):
        incoming = scratch[step % 2]
        comm.Sendrecv(partial_sum, right, 0, incoming, left, 0)
        own = block[(rank - 2 - step) % ranks]
        target = payload.output if step == ranks - 2 else incoming
        np.add(incoming, own, out=target)
        partial_sum = target


def measure(size: int, rounds: int) -> list[Row]:
    """Rows of one size on this job's ranks; collective."""
    library = mpi()  # before mpi4py starts MPI, so that it runs with the thread level that Lanecast wants
    from mpi4py import MPI

    settings = Settings(("reduce_scatter",), (size,), (), rounds=rounds)
    over_mpi = lanecast.init(transports="mpi")
    default = lanecast.init()
    bench = Bench(Ranks(default), settings)
    case = Case("reduce_scatter", size // 4 // default.size, "float32", "sum", False, default.rank, default.size)
    payload = Payload(case)
    scratch = [np.empty_like(payload.output) for _ in range(2)]
    world = MPI.COMM_WORLD.Dup()

    def lanecast_ring(comm: lanecast.Communicator) -> Callable[[], object]:
        return partial(comm.reduce_scatter_tensor, payload.output, payload.input, algorithm="ring")

    calls: dict[str, Callable[[], object]] = {
        "mpi4py + numpy": partial(ring_reduce_scatter, world, payload, scratch),
        "lanecast, mpi": lanecast_ring(over_mpi),
        "lanecast, " + default.transports: lanecast_ring(default),
    }
    contenders = [Contender(Backend(name), payload, call, payload.output, "ring") for name, call in calls.items()]
    bench.compete(contenders)
    run = machine.describe(bench.ranks, library) | {"baseline": "mpi4py + numpy", "rounds": rounds}
    return [{**bench.row(contender), "run": run} for contender in contenders]


def main(
    ranks: Annotated[str, typer.Option(help="Rank counts.")] = "2,4,8",
    sizes: Annotated[str, typer.Option(help="Bytes of the input of each rank.")] = "64K,1M,16M",
    rounds: int = 10,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    rows_file: Annotated[Path | None, typer.Option("--rows", hidden=True)] = None,
) -> None:
    """Compare over rank counts; each count is a job of its own."""
    if under_launcher():
        rows = [row for size in parse_sizes(sizes) for row in measure(size, rounds)]
        if launch.rank() == 0 and rows_file is not None:
            rows_file.write_text(json.dumps(rows))
        return
    found: list[Row] = []
    for count in ranks.split(","):
        rows = rows_of_job(int(count), ["--sizes", sizes, "--rounds", str(rounds)])
        if not found:
            print(tables.banner(rows[0]["run"]))
        tables.console().print(tables.results(rows))
        found += rows
    print(tables.footer(found[0]["run"]))
    faster = [r for row in found if row["backend"].endswith(", mpi") and (r := tables.ratio(row, found))]
    print(f"lanecast over the same MPI: {statistics.geometric_mean(faster):.2f} times as fast in the geometric mean")
    if json_file is not None:
        write_json(json_file, found)


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
