# SPDX-License-Identifier: Apache-2.0
"""How many times faster than the baseline, over all sizes of a range: one line per collective, backend and mode."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from lanecast.bench.measure import EAGER, GRAPH, Row
from lanecast.bench.tables import ratio, size_text

_MIB = 1 << 20
RANGES = {EAGER: (_MIB, 1024 * _MIB), GRAPH: (16 * _MIB, 1024 * _MIB)}


def ratios(rows: Sequence[Row], like: Row, low: int, high: int) -> dict[int, float]:
    """The baseline's time over that of rows like this one, by size, of what was measured from low to high."""
    keys = ("collective", "dtype", "mode", "backend")
    mine = [row for row in rows if all(row.get(key) == like.get(key) for key in keys)]
    # Sizes were rounded down to whole elements of every rank.
    mine = [row for row in mine if low - _MIB // 16 <= row["bytes"] <= high]
    return {row["bytes"]: times for row in mine if (times := ratio(row, rows)) is not None}


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Geometric mean, and the least with its size."""
    baseline = rows[0]["run"]["baseline"]
    firsts: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        firsts.setdefault((row["collective"], row["backend"], row["mode"]), row)
    for (collective, backend, mode), first in firsts.items():
        found = ratios(rows, first, *RANGES[mode])
        if backend == baseline or not found:
            continue
        worst = min(found, key=lambda size: found[size])
        mean = statistics.geometric_mean(found.values())
        yield (
            f"{collective}, {mode}, {size_text(min(found))} to {size_text(max(found))}: {backend} is {mean:.2f}x "
            f"{baseline}, at least {found[worst]:.2f}x ({size_text(worst)})"
        )
