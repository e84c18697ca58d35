# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/measurements/processes, from the files of processes_data.py; figures.py writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import processes_data as data

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
SAID = {"standard": "the library's own", "lanecast": "Lanecast's choice", "nccl": "NCCL alone", "mpi": "MPI alone"}


def said(way: str) -> str:
    return SAID.get(way, way)


def ms_text(us: float) -> str:
    return f"{us / 1000:.0f}" if us >= 999_500 else f"{us / 1000:.3g}"


def size_text(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def spread_text(cell: data.Cell | None) -> str:
    if cell is None:
        return "-"
    return f"{ms_text(cell.middle_us)} ({ms_text(min(cell.us))} to {ms_text(max(cell.us))})"


def rows_of(run: data.Run) -> list[list[str]]:
    """A line for each place, size and way, with each number of processes beside the others."""
    numbers = run.numbers + ([data.CHOSEN] if any(cell.processes == data.CHOSEN for cell in run.cells) else [])
    rows = []
    for hosts, leaders, size in sorted({(cell.hosts, cell.leaders, cell.bytes) for cell in run.cells}):
        for way in run.ways:
            here = {c.processes: c for c in run.of(way) if (c.hosts, c.leaders, c.bytes) == (hosts, leaders, size)}
            if here:
                bound = next(iter(here.values())).bound_us
                times = [spread_text(here.get(number)) for number in numbers]
                rows.append([str(hosts), str(leaders), size_text(size), said(way), *times,
                             "-" if bound is None else ms_text(bound)])  # fmt: skip
    return rows


def run_text(run: data.Run, table: Table) -> str:
    numbers = [f"{number} process{'es' * (number > 1)}" for number in run.numbers]
    if any(cell.processes == data.CHOSEN for cell in run.cells):
        numbers.append("number left to Lanecast")
    runs = sorted({len(cell.us) for cell in run.cells})
    counted = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    wrong = sum(cell.wrong for cell in run.cells)
    checked = "every element right" if wrong == 0 else f"{wrong} wrong elements"
    network = f" {run.network}." if run.network else ""
    caveat = f" {run.caveat}" if run.caveat else ""
    return (
        f"## {run.title}\n\n```sh\n{run.command}\n```\n\nCommit {run.commit}.{network} Times in ms: the median of "
        f"{counted} interleaved runs, the least and the greatest; {checked}.{caveat}\n\n"
        + table(("hosts", "leaders", "size", "way", *numbers, "bound"), rows_of(run))
    )


def page(machine: data.Machine, table: Table) -> str:
    runs = "\n".join(run_text(run, table) for run in machine.runs)
    return (
        f"# Several processes per rank: {machine.name}\n\n{machine.machine}. {machine.software}.\n"
        "What it says: [several processes per GPU](../../explanation/processes-per-gpu.md). `make figures` writes this "
        f"page.\n\n{runs}"
    )


def pages(table: Table) -> dict[Path, str]:
    return {data.FOLDER / f"{name}.md": page(machine, table) for name, machine in data.read().items()}
