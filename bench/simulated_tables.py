# SPDX-License-Identifier: Apache-2.0
"""Simulates what the pages of docs/measurements/simulated show, the fewest ranks first, into the JSON files there.

    python bench/simulated_tables.py --minutes 60
    python bench/simulated_tables.py --collectives all_gather --ranks 2048 --backends lanecast    # these points alone

A ring of one chunk does the same in each step, and its steps grow with the ranks. So one of many ranks is simulated on
512, with blocks as large, and its time grows with the steps; those that were simulated whole differ by 0.04 % at most.

It stops after so many minutes, and goes on next time. Rows go when the machine's figures have changed. If the code has
that decides simulated times, those rows go whose algorithm or chunks are chosen otherwise now, and one of the rest of
each collective and contender is simulated again. All go if one is another.
`make figures` then writes the pages, which say what is still to be simulated. Needs SimGrid.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from lanecast import machines
from lanecast.bench.options import distinct
from lanecast.bench.software import software
from lanecast.machines import Machine
from lanecast.scale import build, contenders, platform, point, rings
from lanecast.scale.contenders import Case
from lanecast.scale.tables import bound_Bps, say

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "measurements" / "simulated"
MIB = 1 << 20
RING_RANKS = rings.MOST_RANKS
# What decides simulated times: plans, how they are chosen and run, and the simulator. What is of GPUs does not.
CODE = (
    *("simulator/*", "src/topology/*", "src/plan/*", "src/algorithms/*", "src/compose/*", "src/runtime/host/*"),
    *("src/runtime/bound/*", *(f"src/select/{name}.*" for name in ("choose", "cost", "predict", "models"))),
    *("python/lanecast/scale/contenders.py", "python/lanecast/scale/platform.py"),
)


@dataclass(frozen=True)
class Grid:
    """One table of a page. Sizes are of the full buffer, of an all-to-all what one rank brings."""

    collectives: tuple[str, ...]
    ranks: tuple[int, ...]
    mebibytes: tuple[int, ...]
    backends: tuple[str, ...]

    def points(self) -> list[tuple[int, str, int, str]]:
        """Ranks, collective, MiB, backend; those of few ranks first."""
        return [
            (count, name, size, backend)
            for count in self.ranks
            for name in self.collectives
            for size in self.mebibytes
            for backend in self.backends
        ]


GRIDS = (
    Grid(contenders.COLLECTIVES, (32, 128, 256, 512, 1024, 2048), (16, 64, 256, 1024), ("lanecast", "ring-per-nic")),
    Grid(
        contenders.COLLECTIVES,
        (128, 512),
        (16, 64, 256, 1024),
        ("recursive-across", "direct-across", "ring-across", "flat"),
    ),
    Grid(("broadcast", "reduce", "gather", "scatter"), (128, 512, 1024, 2048), (1, 16, 64), ("lanecast", "flat")),
    Grid(("all_to_all",), (128, 512, 1024, 2048), (1, 16, 64), ("lanecast", "flat")),
)


def main(
    machine: Annotated[str, typer.Option(help="Comma-separated.")] = "frontier,perlmutter",
    minutes: Annotated[float, typer.Option(help="A point that has begun is done.")] = 600,
    collectives: Annotated[str, typer.Option(help="Comma-separated; default: all.")] = "",
    ranks: Annotated[str, typer.Option(help="The same.")] = "",
    backends: Annotated[str, typer.Option(help="The same.")] = "",
) -> None:
    """Simulate what the files lack."""
    end = time.monotonic() + 60 * minutes
    simulator = build.simulator(say)
    described = {name: machines.load(name) for name in distinct(machine)}
    files = {name: _file(name, one, simulator) for name, one in described.items()}
    for name, file in files.items():
        _write(FOLDER / f"{name}.json", file)
    points = sorted((count, at, name, rest) for at, grid in enumerate(GRIDS) for count, *rest in grid.points()
                    for name in described)  # fmt: skip
    wanted = _wanted({"collective": collectives, "ranks": ranks, "backend": backends})
    for count, _, name, (collective, mebibytes, backend) in points:
        key = {"collective": collective, "ranks": count, "mebibytes": mebibytes, "backend": backend}
        if any(str(key[field]) not in some for field, some in wanted.items()):
            continue
        rows = files[name]["rows"]
        if any(key.items() <= row.items() for row in rows):
            continue
        if time.monotonic() > end:
            say("time is up: the same command goes on from here")
            return
        rows.append({**key, **_simulated(simulator, described[name], key)})
        _write(FOLDER / f"{name}.json", files[name])


def _wanted(asked: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """By what a row says of a point: which of the grids' words; where nothing is asked, all."""
    fields = {"collective": "collectives", "ranks": "ranks", "backend": "backends"}
    known = {field: {str(word) for grid in GRIDS for word in getattr(grid, fields[field])} for field in asked}
    for field, text in asked.items():
        for word in distinct(text):
            if word not in known[field]:
                raise typer.BadParameter(
                    f"{word!r}: the grids have {', '.join(sorted(known[field]))}", param_hint=field
                )
    return {field: distinct(text) or tuple(known[field]) for field, text in asked.items()}


def code_digest() -> str:
    found = hashlib.sha256()
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        if path.suffix in {".h", ".cpp", ".py"}:
            found.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def _file(name: str, machine: Machine, simulator: build.Simulator) -> dict[str, Any]:
    """What is known, as far as it is of this code and of these figures."""
    about = {
        "name": machine.name, "simulated": True, "simgrid": simulator.simgrid, "code": code_digest(),
        "platform": platform.figures(machine),
        "grids": [{"collectives": list(grid.collectives), "ranks": list(grid.ranks),
                   "mebibytes": list(grid.mebibytes), "backends": list(grid.backends)} for grid in GRIDS],
    }  # fmt: skip
    file = FOLDER / f"{name}.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    same = all(before.get(fact) == about[fact] for fact in ("simgrid", "platform"))
    rows: list[dict[str, Any]] = before["rows"] if same else []
    if same and before.get("code") != about["code"]:
        rows = [row for row in rows if _chosen_again(machine, row)]
        if not _still_hold(simulator, machine, rows):
            say(f"{machine.name}: the code takes other times now, all rows go")
            rows = []
    return {**about, "with": software(), "rows": rows}


def _chosen_again(machine: Machine, row: dict[str, Any]) -> bool:
    _, plan = _planned(machine, row)
    return bool([row["algorithm"], row["chunks"]] == [plan.algorithm, plan.chunks])


def _still_hold(simulator: build.Simulator, machine: Machine, rows: list[dict[str, Any]]) -> bool:
    """Of each collective and contender, the row of the fewest ranks and bytes."""
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: (row["ranks"], row["mebibytes"])):
        first.setdefault((row["collective"], row["backend"]), row)
    return all(row["us"] == _simulated(simulator, machine, row)["us"] for row in first.values())


def _case(machine: Machine, key: dict[str, Any]) -> Case:
    ranks = key["ranks"]
    return Case(machine, key["collective"], ranks, contenders.evenly(key["mebibytes"] * MIB, ranks))


def _planned(machine: Machine, key: dict[str, Any]) -> tuple[Case, contenders.Plan]:
    """The case as its contender meets it, and what that does."""
    met = contenders.on(key["backend"], _case(machine, key))
    return met, contenders.plan(key["backend"], met)


def _simulated(simulator: build.Simulator, machine: Machine, key: dict[str, Any]) -> dict[str, Any]:
    met, plan = _planned(machine, key)
    say(f"{machine.name}: {key['collective']} of {key['mebibytes']} MiB on {key['ranks']} ranks, {key['backend']}")
    fewer = rings.on_fewer_ranks(met, plan, RING_RANKS)
    outcome = point.run(simulator, [*platform.words(met.machine), *plan.words(fewer)], lambda text: say(f"  {text}"))
    seconds = rings.seconds_on_all(outcome.seconds, met, fewer)
    case = _case(machine, key)
    bound = bound_Bps(case)
    return {
        "algorithm": plan.algorithm, "chunks": plan.chunks, "us": round(seconds * 1e6, 2),
        "bound_us": None if bound is None else round(case.bytes / bound * 1e6, 2),
        "simulating_s": round(outcome.wall_s, 1), "simulator_MiB": outcome.memory_MiB,
        **({} if fewer is met else {"simulated_on": fewer.ranks}),
    }  # fmt: skip


def _write(file: Path, known: dict[str, Any]) -> None:
    """A line for each row; whole, or as it was."""
    file.parent.mkdir(exist_ok=True)
    head = json.dumps({name: value for name, value in known.items() if name != "rows"}, indent=1)
    rows = ",\n".join(f"  {json.dumps(row)}" for row in known["rows"])
    made = file.with_suffix(".new")
    made.write_text(f'{head.removesuffix("}").rstrip()},\n "rows": [\n{rows}\n ]\n}}\n')
    made.replace(file)


if __name__ == "__main__":
    typer.run(main)
