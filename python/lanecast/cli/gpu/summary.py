# SPDX-License-Identifier: Apache-2.0
"""How many times faster than the baseline, over all sizes of a range: one line per collective, backend and mode."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from lanecast.cli.gpu.measure import EAGER, GRAPH
from lanecast.cli.measure import Row
from lanecast.cli.tables import ratio, size_text

_MIB = 1 << 20
RANGES = {EAGER: (_MIB, 1024 * _MIB), GRAPH: (16 * _MIB, 1024 * _MIB)}


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Geometric mean, and the least with its size; of the sizes that were measured."""
    baseline = rows[0]["run"]["baseline"]
    keys = dict.fromkeys((row["collective"], row["backend"], row["mode"]) for row in rows)
    for collective, backend, mode in keys:
        low, high = RANGES[mode]
        mine = [row for row in rows if (row["collective"], row["backend"], row["mode"]) == (collective, backend, mode)]
        # Sizes were rounded down to whole elements of every rank.
        ratios = {row["bytes"]: ratio(row, rows) for row in mine if low - _MIB // 16 <= row["bytes"] <= high}
        found = {size: times for size, times in ratios.items() if times is not None}
        if backend == baseline or not found:
            continue
        worst = min(found, key=lambda size: found[size])
        mean = statistics.geometric_mean(found.values())
        yield (
            f"{collective}, {mode}, {size_text(min(found))} to {size_text(max(found))}: {backend} is {mean:.2f}x "
            f"{baseline}, at least {found[worst]:.2f}x ({size_text(worst)})"
        )
