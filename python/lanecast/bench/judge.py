# SPDX-License-Identifier: Apache-2.0
"""Which cells of a benchmark are slower than the best library beside them: what `lanecast bench --judge` ends by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from lanecast import _core
from lanecast.bench import tables
from lanecast.bench.measure import Row
from lanecast.bench.settings import CPU, JUDGED, PLAIN, Backend

ENOUGH = 0.98  # of the best one's speed; closer ones no run tells apart
_CASE = ("collective", "topology", "bytes", "dtype", "op", "mode")


@dataclass(frozen=True)
class Cell:
    """A call by Lanecast's own choice beside the fastest library that could have made it."""

    row: Row
    best: Row

    @property
    def speed(self) -> float:
        """Of the best one's."""
        return float(self.best["time_us"] / self.row["time_us"])

    @property
    def falls_short(self) -> bool:
        return self.speed < ENOUGH


def check(backends: Sequence[Backend]) -> None:
    """Raise UsageError where nothing would be judged, or by nothing."""
    judged = [backend for backend in backends if backend.name in JUDGED]
    if not judged or not any(_may_be_best(other, backend.memory) for backend in judged for other in backends):
        raise _core.UsageError(
            f"judge: needs one of {', '.join(JUDGED)}, and beside it mpi, or nccl with --device cuda; "
            f"backends are {', '.join(backend.name for backend in backends)}"
        )


def cells(rows: Iterable[Row], backends: Sequence[Backend]) -> list[Cell]:
    """Of all cases with both. On plain memory what needs memory of its own kind is no alternative."""
    by_name = {backend.name: backend for backend in backends}
    cases: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        cases.setdefault(tuple(row.get(key) for key in _CASE), []).append(row)
    found = []
    for together in cases.values():
        for row in together:
            if row["backend"] not in JUDGED:
                continue
            memory = by_name[row["backend"]].memory
            others = [other for other in together if _may_be_best(by_name[other["backend"]], memory)]
            if others:
                found.append(Cell(row, min(others, key=lambda other: float(other["time_us"]))))
    return found


def table_of(found: Sequence[Cell]) -> Table:
    """Those that fall short, the worst first."""
    headings = ("collective", "size", "type", "mode", "backend", "algorithm", "time\n(us)", "best", "its time\n(us)",
                "of its speed")  # fmt: skip
    left = ("collective", "type", "mode", "backend", "algorithm", "best")
    table = tables.headed(f"slower than {ENOUGH} of the best library", headings, left)
    for cell in sorted(found, key=lambda cell: cell.speed):
        row, best = cell.row, cell.best
        table.add_row(row["collective"], tables.size_text(row["bytes"]), row["dtype"], row.get("mode", ""),
                      row["backend"], row["algorithm"], tables.number(row["time_us"]), best["backend"],
                      tables.number(best["time_us"]), f"{cell.speed:.2f}")  # fmt: skip
    return table


def passes(rows: Sequence[Row], backends: Sequence[Backend]) -> bool:
    """Print the verdict; is every cell fast enough?"""
    found = cells(rows, backends)
    short = [cell for cell in found if cell.falls_short]
    out = tables.console()
    out.print()
    if short:
        out.print(table_of(short))
    out.print(f"judged: {len(found)} cells, {len(short)} slower than {ENOUGH} of the best library beside them")
    return not short


def _may_be_best(backend: Backend, memory: str) -> bool:
    return backend.is_library and (memory not in {CPU, PLAIN} or backend.memory == memory)
