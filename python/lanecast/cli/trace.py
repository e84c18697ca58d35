# SPDX-License-Identifier: Apache-2.0
"""`lanecast trace`: what the ranks of a job have called, and who is behind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lanecast import _core
from lanecast.bench import outputs


def trace(
    directory: Annotated[Path, typer.Argument(help="What LANECAST_TRACE_DIR or write_trace() named.")],
    timeline: Annotated[Path | None, typer.Option(help="Draw the messages of the busiest communicator.")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(help="Write what ranks did in each step and chunk of it, for ui.perfetto.dev.")
    ] = None,
) -> None:
    """Put ranks' traces together: where each stands, who is behind, what differs, what went over which transport."""
    if not directory.is_dir():
        raise _core.UsageError(f"{directory} is no directory; a job with LANECAST_TRACE_DIR={directory} writes one")
    outputs.check_picture(timeline)
    outputs.check(perfetto)
    from lanecast import traces

    jobs = traces.read(directory)
    print("\n".join(traces.report(job) for job in jobs), end="")
    busiest = max(jobs, key=lambda job: sum(len(rank.messages) for rank in job.ranks.values()))
    if timeline is not None:
        from lanecast.traces.timeline import draw_timeline

        draw_timeline(busiest, timeline)
        print(f"wrote {timeline}", file=sys.stderr)
    if perfetto is not None:
        from lanecast.traces.perfetto import write_perfetto

        write_perfetto(busiest, perfetto)
        print(f"wrote {perfetto}; open it at https://ui.perfetto.dev", file=sys.stderr)
