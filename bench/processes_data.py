# SPDX-License-Identifier: Apache-2.0
"""Times of several processes per rank or GPU, as docs/measurements/processes keeps them; rows of `lanecast bench
--protocol ppg` are put there by

    python bench/processes_data.py h200-x2 one-host rows.json --title "Within a host" --commit 208f3a91e7bd

Pages and pictures are made of these files by processes_pages.py and processes_plots.py.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "measurements" / "processes"
COLUMNS = ("way", "processes", "hosts", "leaders", "bytes", "us", "bound_us", "waits_for_core", "nic_bytes", "wrong")
CHOSEN = 0  # processes: as many as Lanecast found to be fastest
WAYS = ("standard", "multi-lane", "multi-lane, ring", "ring", "lanecast", "nccl", "mpi")


@dataclass(frozen=True)
class Cell:
    """One way to make one call."""

    way: str
    processes: int
    hosts: int
    leaders: int  # in all
    bytes: int
    us: tuple[float, ...]  # of each run
    bound_us: float | None
    waits_for_core: float | None  # share of the time in which a leader was ready to run
    nic_bytes: tuple[float, ...]  # received by each NIC of a host in a call
    wrong: int

    @property
    def middle_us(self) -> float:
        return median(self.us)

    @property
    def busiest_nic(self) -> float | None:
        """The share of the time in which the NIC that receives most had to be busy."""
        if self.bound_us is None or not any(self.nic_bytes):
            return None
        of_bound = max(self.nic_bytes) * len(self.nic_bytes) / (2 * self.bytes * (1 - 1 / self.hosts))
        return of_bound * self.bound_us / self.middle_us


@dataclass(frozen=True)
class Run:
    """What ran together, or one after the other for the same figure."""

    name: str
    title: str
    network: str  # "2 NICs of 10 Gbit/s a host, emulated"; empty within a host
    command: str
    commit: str
    caveat: str
    cells: tuple[Cell, ...]

    def of(self, way: str, processes: int | None = None) -> list[Cell]:
        return [cell for cell in self.cells if cell.way == way and processes in (None, cell.processes)]

    @property
    def ways(self) -> list[str]:
        return [way for way in WAYS if self.of(way)]

    @property
    def numbers(self) -> list[int]:
        """Of processes, without those that were chosen."""
        return sorted({cell.processes for cell in self.cells} - {CHOSEN})


@dataclass(frozen=True)
class Machine:
    """Of one file."""

    name: str
    machine: str
    software: str
    runs: tuple[Run, ...]

    def run(self, name: str) -> Run | None:
        return next((run for run in self.runs if run.name == name), None)


def _cell(row: list[Any]) -> Cell:
    named = dict(zip(COLUMNS, row, strict=True))
    return Cell(**{**named, "us": tuple(named["us"]), "nic_bytes": tuple(named["nic_bytes"])})


def read() -> dict[str, Machine]:
    found = {}
    for file in sorted(FOLDER.glob("*.json")):
        text = json.loads(file.read_text())
        runs = [Run(**{**run, "cells": tuple(map(_cell, run["cells"]))}) for run in text["runs"]]
        found[file.stem] = Machine(**{**text, "runs": tuple(runs)})
    return found


def kept(row: dict[str, Any]) -> list[Any]:
    """Of a row of the benchmark; plain MPI of another run has no way, and is one process."""
    waits = (row.get("cores") or {}).get("rank_waiting")
    received = [round(nic["received"]) for nic in (row.get("nic_bytes") or {}).values()]
    return [
        row.get("way", row["backend"]), row.get("processes", 1), row["run"]["hosts"], row["ranks"], row["bytes"],
        [round(us, 2) for us in row["time_us_rounds"]], row["bound_us"] and round(row["bound_us"], 2),
        None if waits is None else round(waits, 3), received, row["wrong"],
    ]  # fmt: skip


def _lines(text: dict[str, Any]) -> str:
    """A line for each cell, so that a change of one is seen."""
    runs = []
    for run in text["runs"]:
        facts = json.dumps({name: value for name, value in run.items() if name != "cells"}, indent=1)[:-2]
        cells = ",\n".join("  " + json.dumps(cell) for cell in run["cells"])
        runs.append(f'{facts},\n "cells": [\n{cells}\n ]}}')
    head = json.dumps({name: value for name, value in text.items() if name != "runs"}, indent=1)[:-2]
    return f'{head},\n "runs": [\n' + ",\n".join(runs) + "\n]}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", help="the name of its file")
    parser.add_argument("run", help="its name in the file; one of that name is replaced")
    parser.add_argument("rows", type=Path, nargs="+")
    for name in ("title", "network", "commit", "caveat", "command"):
        parser.add_argument(f"--{name}", default="")
    given = parser.parse_args()
    rows = [row for file in given.rows for row in json.loads(file.read_text())]
    command = given.command or rows[0]["run"]["command"].partition(" --json")[0]
    file = FOLDER / f"{given.machine}.json"
    text: dict[str, Any] = (
        json.loads(file.read_text()) if file.exists() else {"name": "", "machine": "", "software": "", "runs": []}
    )
    run = {"name": given.run, "title": given.title, "network": given.network, "command": command,
           "commit": given.commit, "caveat": given.caveat, "cells": [kept(row) for row in rows]}  # fmt: skip
    text["runs"] = [each for each in text["runs"] if each["name"] != given.run] + [run]
    file.write_text(_lines(text))


if __name__ == "__main__":
    main()
