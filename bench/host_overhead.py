# SPDX-License-Identifier: Apache-2.0
"""What one planned 8-byte call costs the host, beside the MPI library's own blocking call.

    python bench/host_overhead.py --json host_overhead.json

On one rank there is nobody to wait for: what remains is the way through Python and the executor. On two ranks the
latency of one exchange comes on top. `mpi` and `lanecast` are called through equally thin bindings; `lanecast, API` is
the public method, which checks its arguments.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import lanecast
from jobs import rows_of_job
from lanecast import _core, launch
from lanecast.bench import machine, tables
from lanecast.bench.backends import lanecast_call
from lanecast.bench.measure import Bench, Contender, Row, case_for
from lanecast.bench.outputs import write_json
from lanecast.bench.payload import Payload
from lanecast.bench.ranks import Ranks
from lanecast.bench.settings import Backend, Settings, parse_backend
from lanecast.job import under_launcher
from lanecast.startup import mpi

BYTES = 8
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")


def measure(rounds: int) -> list[Row]:
    """Rows of the three collectives on this job's ranks; collective."""
    library = mpi()
    backends = (parse_backend("mpi"), parse_backend("lanecast"))
    comm = lanecast.init()
    ranks = Ranks(comm, _core.MpiBaseline(library))
    bench = Bench(ranks, Settings(COLLECTIVES, (BYTES,), backends, rounds=rounds, warmup=100))
    run = machine.describe(ranks, library) | {"baseline": "mpi", "rounds": rounds}
    rows: list[Row] = []
    for collective in COLLECTIVES:
        # The public all-reduce works in place.
        case = case_for(replace(bench.settings, in_place=collective == "all_reduce"), collective, BYTES, ranks)
        payload = Payload(case)
        contenders = [bench.contender(backend, payload) for backend in backends]
        call = lanecast_call(comm, payload, "")
        contenders.append(Contender(Backend("lanecast, API"), payload, call, payload.output, contenders[1].algorithm))
        bench.compete(contenders)
        rows += [{**bench.row(contender), "run": run} for contender in contenders]
    return rows


def main(
    rounds: int = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    rows_file: Annotated[Path | None, typer.Option("--rows", hidden=True)] = None,
) -> None:
    """Measure on one rank, then on two."""
    if under_launcher():
        rows = measure(rounds)
        if launch.rank() == 0 and rows_file is not None:
            rows_file.write_text(json.dumps(rows))
        return
    found: list[Row] = []
    for ranks in (1, 2):
        rows = rows_of_job(ranks, ["--rounds", str(rounds)])
        if not found:
            print(tables.banner(rows[0]["run"]))
        for collective in COLLECTIVES:
            tables.console().print(tables.results([row for row in rows if row["collective"] == collective]))
        found += rows
    print(tables.footer(found[0]["run"]))
    if json_file is not None:
        write_json(json_file, found)


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
