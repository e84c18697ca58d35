# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench`: collectives, sizes and backends side by side in one run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import _core
from lanecast.cli import payload, runner
from lanecast.cli.checks import choose_baseline
from lanecast.cli.options import (
    Settings,
    distinct,
    known_name,
    parse_backend,
    parse_dtype,
    parse_sizes,
    split_list,
)

PICTURES = (".png", ".pdf", ".svg")
COLLECTIVES = ",".join(payload.MAIN)


def _known(what: str, known: Any) -> str:
    return f"{what}: {', '.join(known)}."


def bench(  # noqa: PLR0913, PLR0917  one per option
    collectives: Annotated[str, typer.Option(help=_known("Comma-separated", _core.KINDS))] = COLLECTIVES,
    sizes: Annotated[
        str, typer.Option(help="Bytes of the full buffer: 4M,16M or a doubling range 64K..64M.")
    ] = "64K,1M,16M",
    backends: Annotated[
        str, typer.Option(help="lanecast, lanecast:ALGORITHM, reproducible, native, mpi.")
    ] = "lanecast,mpi",
    topology: Annotated[str, typer.Option(help="2x4, 2x2x2, 3+2+4, 2x4:cyclic; several, comma-separated.")] = "",
    transports: Annotated[str, typer.Option(help=_known("One, or one per level, from", _core.TRANSPORTS))] = "",
    dtype: Annotated[str, typer.Option(help=_known("One of", _core.DTYPES))] = "float32",
    op: Annotated[str, typer.Option(help=_known("One of", _core.OPS))] = "sum",
    rounds: Annotated[int, typer.Option(min=1, help="Each runs every backend once; the median is shown.")] = 10,
    warmup: Annotated[int, typer.Option(min=0, help="Calls before the first round.")] = 2,
    ranks: Annotated[int, typer.Option(min=0, help="How many to start; 0: as the topology, else 4.")] = 0,
    in_place: Annotated[bool, typer.Option("--in-place", help="Input within the output.")] = False,
    baseline: Annotated[str, typer.Option(help="The backend to compare with; empty: mpi, else the first.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
    heatmap: Annotated[Path | None, typer.Option(help="Draw speed relative to the baseline (PNG, PDF, SVG).")] = None,
) -> None:
    """Compare backends on the same buffers, in rounds that alternate between them.

    Started plainly it starts its own ranks; under mpirun, mpiexec or srun it uses those. With a topology on one host
    the nodes are emulated: MPI messages across them, shared memory within.
    """
    contenders = tuple(parse_backend(text) for text in distinct(backends))
    if not contenders:
        raise _core.UsageError("backends: none given; known: lanecast, lanecast:ALGORITHM, reproducible, native, mpi")
    settings = Settings(
        collectives=tuple(known_name("collective", name, _core.KINDS) for name in distinct(collectives)),
        sizes=parse_sizes(sizes),
        backends=contenders,
        topologies=distinct(topology) or ("",),
        transports=",".join(known_name("transport", name, _core.TRANSPORTS) for name in split_list(transports)),
        dtype=parse_dtype(dtype),
        op=known_name("op", op, _core.OPS),
        rounds=rounds,
        warmup=warmup,
        in_place=in_place,
        baseline=choose_baseline(baseline, contenders),
    )
    for file in (json_file, heatmap):
        if file is not None and not file.absolute().parent.is_dir():
            raise _core.UsageError(f"{file}: the folder {file.parent} does not exist")
    if heatmap is not None and heatmap.suffix not in PICTURES:
        raise _core.UsageError(f"{heatmap}: pictures end in {', '.join(PICTURES)}")
    rows = runner.run(settings, ranks)
    if rows is None:
        return
    if json_file is not None:
        write_json(json_file, rows)
    if heatmap is not None and len(contenders) > 1:
        from lanecast.cli import plots

        plots.heatmap(rows, heatmap)
    if any(row["wrong"] for row in rows):
        raise _core.InternalError("wrong results: see the column #wrong")


def write_json(path: Path, rows: list[dict[str, Any]]) -> None:
    """A list of rows, one per line of the file; what a run shares is in each under `run`."""
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"wrote {path}", file=sys.stderr)
