# SPDX-License-Identifier: Apache-2.0
"""A picture of a communicator's messages over time: one row for each rank and level."""

from __future__ import annotations

from pathlib import Path

from lanecast._core import UsageError
from lanecast.traces.read import CommunicatorTrace

_COLORS = ("#d1495b", "#00798c", "#edae49", "#66a182", "#2e4057")
_SMALLEST_MS = 0.002  # what can be seen


def draw_timeline(job: CommunicatorTrace, output: Path) -> None:
    """Draw when each rank had messages under way, coloured by level and transport; PNG, PDF or SVG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    begins = [message["begin_ns"] for trace in job.ranks.values() for message in trace.messages]
    if not begins:
        raise UsageError(f"communicator {job.id} has kept no messages; set LANECAST_TRACE_STEPS=1 where it runs")
    origin = min(begins)
    rows = sorted({(rank, m.get("level", -1)) for rank, trace in job.ranks.items() for m in trace.messages})
    kinds: dict[tuple[int, str], list[tuple[int, float, float]]] = {}
    for rank, trace in job.ranks.items():
        for message in trace.messages:
            level = message.get("level", -1)
            begin_ms = (message["begin_ns"] - origin) / 1e6
            took_ms = max((message["end_ns"] - message["begin_ns"]) / 1e6, _SMALLEST_MS)
            kinds.setdefault((level, message["transport"]), []).append((rows.index((rank, level)), begin_ms, took_ms))
    figure, axes = plt.subplots(figsize=(11, 1.2 + 0.28 * len(rows)), layout="constrained")
    for (level, transport), bars in sorted(kinds.items()):
        at, begin_ms, took_ms = zip(*bars, strict=True)
        label = f"level {level}, {transport}" if level >= 0 else f"groups, {transport}"
        axes.barh(at, took_ms, left=begin_ms, height=0.8, alpha=0.6, color=_COLORS[level % len(_COLORS)], label=label)
    axes.set_yticks(range(len(rows)), [f"rank {rank}" + (f", level {k}" if k >= 0 else "") for rank, k in rows])
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.set_title(f"messages under way, {job.size} ranks as {job.topology}")
    axes.legend(loc="upper right", fontsize="small")
    figure.savefig(output, dpi=150)
    plt.close(figure)
