# SPDX-License-Identifier: Apache-2.0
"""`lanecast demo`: the library at work on this machine in under two minutes, with a chart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from lanecast import _core
from lanecast.bench import runner
from lanecast.bench.cases import MAIN
from lanecast.bench.measure import Row
from lanecast.bench.options import parse_sizes
from lanecast.bench.outputs import check, write_json
from lanecast.bench.settings import Settings, parse_backend
from lanecast.bench.tables import mpi_name, ratio, size_text

_RANKS = 4
_SETTINGS = Settings(
    collectives=MAIN,
    sizes=parse_sizes("64K,1M,16M"),
    backends=(parse_backend("lanecast"), parse_backend("mpi")),
    topologies=("2x2",),
    baseline="mpi",
)


def demo() -> None:
    """Run three collectives on 4 ranks as 2 emulated nodes of 2, beside MPI's own; writes demo.png and demo.json."""
    chart, table = Path("demo.png"), Path("demo.json")
    check(chart, table)
    rows = runner.run(_SETTINGS, _RANKS)
    if rows is None:
        return
    from lanecast.bench import plots

    plots.bars(rows, chart)
    write_json(table, rows)
    print("\n" + summary(rows))
    if any(row["wrong"] for row in rows):
        raise _core.InternalError("wrong results: see the column #wrong")


def summary(rows: Sequence[Row]) -> str:
    """What was seen and what to try next, in a few sentences."""
    run, ranks = rows[0]["run"], rows[0]["ranks"]
    wrong = sum(bool(row["wrong"]) for row in rows)
    verdict = f"{wrong} of them were wrong" if wrong else "none differed"
    lines = [
        f"Lanecast ran three collectives on {ranks} ranks; every element of every result was checked, and {verdict}."
    ]
    speeds = {f"{row['collective']} of {size_text(row['bytes'])}": faster
              for row in rows if row["backend"] == "lanecast" and (faster := ratio(row, rows)) is not None}  # fmt: skip
    if speeds and run["mpi"]:
        best, worst = max(speeds, key=speeds.__getitem__), min(speeds, key=speeds.__getitem__)
        mean = statistics.geometric_mean(speeds.values())
        lines.append(
            f"Beside the collectives of {mpi_name(run)} it was between {speeds[worst]:.2f} times ({worst}) and "
            f"{speeds[best]:.2f} times ({best}) as fast, {mean:.2f} times in the geometric mean."
        )
    else:
        lines.append("There is no MPI here to compare with: pip install mpich brings one.")
    if run["oversubscribed"]:
        lines.append(
            f"The ranks shared {run['cores']} cores, so this says how it works, not how fast a cluster would be."
        )
    lines.append(
        "The chart is demo.png. Next: lanecast bench --topology 2x4 --heatmap map.png, "
        "or lanecast plan show all_reduce --topology 2x2 --algorithm 'hierarchical(ring,direct)'."
    )
    return "\n".join(lines)
