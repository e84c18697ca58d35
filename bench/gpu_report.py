# SPDX-License-Identifier: Apache-2.0
"""What gpu_hosts.py has found as a page: machine and command, aims, tables, and what went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import gpu_tables as tables
from gpu_aims import between_hosts, judged, part
from lanecast.bench import machine, plots
from lanecast.bench.measure import Row
from nic_bound_report import plot as plot_shares
from timed_steps import Outcome

_SHARED = "hosts share GPUs, by which results can be checked and speed cannot"


def markdown(outcomes: Sequence[Outcome], command: str) -> str:
    """The page; tables of parts that left no rows are not there."""
    rows = [row for outcome in outcomes for row in outcome.rows]
    host, shared, between = part(rows, "host"), part(rows, "shared GPUs"), between_hosts(rows)
    lines = ["# GPUs: a run of bench/gpu_hosts.py", *_machine(rows, command), *_steps(outcomes)]
    if aims := tables.aims(list(judged(rows))):
        lines += ["", "## Aims, for four GPUs", *aims]
    if host:
        lines += ["", "## One host", "", "Geometric means over NCCL, 1 MiB to 1 GiB, and the least favourable size:"]
        lines += [*tables.means(host), *tables.side_by_side(host)]
    if beside := part(rows, "in place"):
        lines += ["", "## In place, beside torch's one-shot kernel", *tables.side_by_side(beside)]
    if composed := part(rows, "composed"):
        lines += ["", "## Composed", *tables.side_by_side(composed)]
    if taken := part(rows, "memory"):
        lines += ["", "## Memory of a group on each rank", *tables.memory(taken)]
    fast = part(rows, "fast")
    for name in dict.fromkeys(row["step"] for row in fast):
        lines += ["", f"## {name}", *tables.side_by_side([row for row in fast if row["step"] == name])]
    if between or shared:
        lines += ["", "## Emulated hosts", *tables.between_hosts(between), *_shared(shared)]
    if trained := part(rows, "training"):
        lines += ["", "## Training on two emulated hosts", *tables.training(trained)]
    return "\n".join([*lines, ""])


def _machine(rows: Sequence[Row], command: str) -> Iterator[str]:
    yield from ("", f"`{command}`", "")
    runs = [row["run"] for row in rows if "run" in row]
    if runs:
        said = [line for line in machine.lines(runs[0]) if not line.startswith("command")]
        yield from ("```text", *said, "```", "")
    wrong = sum(row.get("wrong", 0) > 0 for row in rows)
    yield (
        "Medians over rounds that alternate between the backends, ± half of what lies between the fastest and the "
        f"slowest. Every element of every result was compared: {wrong} of {len(runs)} rows with wrong ones."
    )


def _steps(outcomes: Sequence[Outcome]) -> list[str]:
    lines = [
        [outcome.step.name, f"{outcome.seconds:.0f}", str(len(outcome.rows)), outcome.summary.replace("|", "/")]
        for outcome in outcomes
    ]
    return tables.table(("step", "s", "rows", ""), lines)


def _shared(rows: Sequence[Row]) -> Iterator[str]:
    for topology in dict.fromkeys(row["topology"] for row in rows):
        here = [row for row in rows if row["topology"] == topology]
        wrong = sum(row["wrong"] > 0 for row in here)
        yield from ("", f"{topology}: {_SHARED}; {wrong} of {len(here)} cases had wrong elements.")


def draw(rows: Sequence[Row], heatmap: Path | None, shares: Path | None) -> Iterator[Path]:
    """Speed relative to NCCL on one host, and shares of the bound between hosts; each where there are rows for it."""
    host, between = part(rows, "host"), between_hosts(rows)
    if heatmap is not None and len({row["backend"] for row in host}) > 1:
        plots.heatmap(host, heatmap)
        yield heatmap
    if shares is not None and between:
        first = between[0]["dtype"]  # a picture of all of them has too many bars
        plot_shares([row for row in between if row["dtype"] == first], shares)
        yield shares


def command_line() -> str:
    return f"python {machine.command_line()}"
