# SPDX-License-Identifier: Apache-2.0
"""`lanecast plan`: see what a rank would do, and prove that it is right."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lanecast import _core
from lanecast.bench import outputs, tables
from lanecast.bench.options import TOPOLOGY_HELP, known_name, ranks_of, topology_for
from lanecast.cli import nic_bytes, programs
from lanecast.cli.verify import verify_all
from lanecast.wording import counted

app = typer.Typer(no_args_is_help=True, help="See the plans of collectives, and prove them.")
app.command("nics")(nic_bytes.nics)

_Collective = Annotated[str, typer.Argument(help=f"{', '.join(_core.KINDS)}.")]
_Algorithm = Annotated[
    str,
    typer.Option(
        help="As in `lanecast plan algorithms`; hierarchical(ring,direct) and the like; default: the first there."
    ),
]
_Topology = Annotated[str, typer.Option(help=TOPOLOGY_HELP)]
_InPlace = Annotated[bool, typer.Option("--in-place", help="Input within the output.")]
_MOST_RANKS = 2**31 - 1
_Root = Annotated[
    int | None, typer.Option(max=_MOST_RANKS, help="Of broadcast, reduce, gather and scatter; default 0.")
]


def _topology(text: str) -> _core.Topology:
    return topology_for(text, ranks_of(text))


def _root(collective: str, root: int | None) -> int:
    if root is not None and not _core.has_root(collective):
        raise _core.UsageError(f"root {root}: {collective} has none")
    return root or 0


def _first(collective: str) -> str:
    """The first algorithm that the registry has for it on any number of ranks."""
    return next(str(row["name"]) for row in _core.algorithm_rows(1) if collective in row["collectives"])


@app.command()
def show(  # noqa: PLR0913, PLR0917  one per option
    collective: _Collective,
    algorithm: _Algorithm = "",
    topology: _Topology = "4",
    rank: Annotated[
        int | None, typer.Option(max=_MOST_RANKS, help="Only this rank's steps; default: what all ranks do.")
    ] = None,
    in_place: _InPlace = False,
    root: _Root = None,
    as_json: programs.AsJson = False,
    program: programs.AsProgram = False,
    size: programs.Size = "",
    dtype: programs.Dtype = "",
    lanes: programs.Lanes = None,
    chunks: programs.Chunks = None,
) -> None:
    """Print what happens in each round, or one rank's steps; --program: its GPU's instructions."""
    known_name("collective", collective, _core.KINDS)
    bound = programs.Shape(size, dtype, lanes, chunks)
    from lanecast import plans

    shape = _topology(topology)
    name = algorithm or _first(collective)
    if program or rank is None:
        made = _core.make_plans(collective, shape, name, in_place, _root(collective, root))
    else:
        made = [_core.make_plan(collective, rank, shape, name, in_place, _root(collective, root))]
    if program:
        programs.show(programs.of_plans(made, bound), rank, as_json)
        return
    bound.refuse()
    if as_json:
        print(plans.to_json(made, shape), end="")
    else:
        print(str(made[0]) if rank is not None else plans.show(made, shape), end="")


@app.command()
def draw(  # noqa: PLR0913, PLR0917  one per option
    collective: _Collective,
    algorithm: _Algorithm = "",
    topology: _Topology = "4",
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, PDF or SVG.")] = Path("plan.png"),
    in_place: _InPlace = False,
    root: _Root = None,
    program: programs.AsProgram = False,
    size: programs.Size = "",
    dtype: programs.Dtype = "",
    lanes: programs.Lanes = None,
    chunks: programs.Chunks = None,
) -> None:
    """Draw who sends what to whom, round by round; --program: what the GPUs do, tick by tick."""
    known_name("collective", collective, _core.KINDS)
    bound = programs.Shape(size, dtype, lanes, chunks)
    outputs.check_picture(output)
    from lanecast import plans

    shape = _topology(topology)
    name = algorithm or _first(collective)
    made = _core.make_plans(collective, shape, name, in_place, _root(collective, root))
    if program:
        programs.draw(programs.of_plans(made, bound), shape, output)
        return
    bound.refuse()
    plans.draw(made, shape, output)
    print(f"wrote {output}", file=sys.stderr)


@app.command()
def verify(  # noqa: PLR0913, PLR0917  one per option
    collective: Annotated[str, typer.Argument(help=f"{', '.join(_core.KINDS)}; none with --all.")] = "",
    algorithm: _Algorithm = "",
    topology: _Topology = "4",
    root: _Root = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All collectives and algorithms, on many topologies.")
    ] = False,
    ranks: Annotated[
        str | None, typer.Option(help="With --all: a number, or a range such as 1-64; default 1-16.")
    ] = None,
) -> None:
    """Prove that plans are right: contributions, matching, no deadlock without buffering, in-place and out-of-place."""
    if everything == bool(collective):
        raise _core.UsageError("plan verify: name one collective, or give --all")
    if everything and root is not None:
        raise _core.UsageError(f"root {root}: --all proves them by itself")
    if everything:
        verify_all(_rank_range("1-16" if ranks is None else ranks))
        return
    if ranks is not None:
        raise _core.UsageError(f"ranks {ranks!r}: only --all takes a range; of {collective} the topology says it")
    known_name("collective", collective, _core.KINDS)
    shape = _topology(topology)
    name = algorithm or _first(collective)
    for in_place in (False, True) if _core.may_be_in_place(collective) else (False,):
        proof = _core.verify_all_ranks(collective, shape, name, in_place, _root(collective, root))
        place = "in place" if in_place else "out of place"
        print(
            f"proven: {collective} by {name} on {topology}, {place}: {counted(proof['messages'], 'message')}; "
            f"no deadlock, even unbuffered, with {proof['min_window']} or more steps open on each rank"
        )


def _rank_range(text: str) -> range:
    match = re.fullmatch(r"(\d+)(?:(?:-|\.\.)(\d+))?", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2] or match[1]):
        raise _core.UsageError(f"ranks {text!r}: expected a number, or a range upwards such as 1-64")
    return range(int(match[1]), int(match[2] or match[1]) + 1)


@app.command()
def algorithms(
    topology: Annotated[str, typer.Option(help=TOPOLOGY_HELP)] = "8",
) -> None:
    """List the algorithms, with their cost on this many ranks: T = rounds x latency + volume x bytes / bandwidth."""
    shape = _topology(topology)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("algorithm", "collectives", "source"):
        table.add_column(heading, no_wrap=True)
    for heading in ("rounds", "volume"):
        table.add_column(heading, justify="right")
    for row in _core.algorithm_rows(shape.size):
        cost = [f"{row[key]:.3g}" for key in ("rounds", "volume")] if row["takes"] else ["-", "-"]
        table.add_row(row["name"], ", ".join(row["collectives"]), row["source"], *cost)
    console = tables.console()
    console.print(table)
    print(
        f"\nrounds and volume, the share of the full buffer that the busiest rank sends, on {shape.size} ranks; "
        "a dash: does not take so many.\n"
        "Of n - 1 messages that are sent at once, as by direct, each counts as 0.3 rounds.\n"
        "An all-gather runs reversed as a reduce-scatter, and both ways, at twice the cost, as an all-reduce; reversed "
        "a broadcast is a reduce, a scatter a gather.\nThe full buffer of an all-to-all is what one rank brings."
    )
    if shape.levels:
        names = [level for level, _ in shape.levels]
        print(
            f"On {topology}, hierarchical(A,{'A,' * (len(names) - 1)}B) takes those of one collective, but "
            "whole-vector all_reduces and scatter_all_gather: "
            f"A across each level ({', '.join(names)}), outermost first, B within."
        )
