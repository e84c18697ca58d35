# SPDX-License-Identifier: Apache-2.0
"""Simulated points as rows and as a table; each says that it is simulated, and with which platform."""

from __future__ import annotations

import sys
from typing import Any

from rich.table import Table

from lanecast.bench.hiccl.bounds import Limits, between_nodes
from lanecast.bench.tables import console, number, size_text
from lanecast.scale import platform
from lanecast.scale.contenders import Case, Plan
from lanecast.scale.point import Outcome


def say(text: str) -> None:
    """Progress, beside the results."""
    print(text, file=sys.stderr, flush=True)


def bound_Bps(case: Case) -> float | None:
    """What rated NICs allow the algorithm bandwidth to be (HiCCL, Table III); None on one node."""
    kf = case.machine.node.nics * case.machine.node.nic_GBps * 1e9
    return between_nodes(case.collective, Limits(kf, kf, None), case.ranks, case.machine.ranks_per_node)


def row(run: dict[str, Any], case: Case, backend: str, plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """One point as it is written to JSON."""
    bound = bound_Bps(case)
    share = (case.ranks - 1) / case.ranks
    moved = case.bytes * share * (2 if case.collective == "all_reduce" else 1)
    return {
        "collective": case.collective, "ranks": case.ranks, "topology": str(case.topology), "bytes": case.bytes,
        "backend": backend, "algorithm": plan.algorithm, "chunks": plan.chunks, "time_us": outcome.seconds * 1e6,
        "nodes": case.ranks // case.machine.ranks_per_node, "algbw_GBps": case.bytes / outcome.seconds / 1e9,
        "bound_GBps": None if bound is None else bound / 1e9, "busbw_GBps": moved / outcome.seconds / 1e9,
        "wrong_elements": outcome.wrong_elements,
        "predicted_us": None if plan.predicted_s is None else plan.predicted_s * 1e6,
        "simulating_took_s": outcome.wall_s, "simulator_MiB": outcome.memory_MiB, "run": run,
    }  # fmt: skip


def platform_lines(run: dict[str, Any]) -> list[str]:
    """The machine's figures, those that nobody has looked up marked."""
    return [
        f"simulated  {run['machine']}, by SimGrid {run['simgrid']}: no figure here was measured",
        f"platform   {platform.text(run['platform'])}",
        f"lanecast   {run['lanecast']}{' (' + run['commit'] + ')' if run['commit'] else ''}",
        f"command    {run['command']}",
    ]


def show(run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """All rows, and for each how many times as long as the fastest of its case it takes."""
    out = console()
    for line in platform_lines(run):
        out.print(line, soft_wrap=True)
    for line in dict.fromkeys(line for one in rows for line in _overhead_lines(one)):
        out.print(line, soft_wrap=True)
    table = Table("collective", "ranks", "size", "backend", "algorithm", "chunks", "simulated\n(us)", "busbw\n(GB/s)",
                  "of fastest", "#wrong", "took (s)", "MiB")  # fmt: skip
    for one in rows:
        fastest = min(other["time_us"] for other in rows if _case(other) == _case(one))
        table.add_row(
            one["collective"], str(one["ranks"]), size_text(one["bytes"]), one["backend"], one["algorithm"],
            str(one["chunks"]), number(one["time_us"]), number(one["busbw_GBps"]),
            f"{one['time_us'] / fastest:.2f}", str(one["wrong_elements"]), f"{one['simulating_took_s']:.1f}",
            str(one["simulator_MiB"]),
        )  # fmt: skip
    out.print(table)


def _overhead_lines(one: dict[str, Any]) -> list[str]:
    lines = []
    if one["message_overhead_us"]:
        lines.append(f"overhead   {one['message_overhead_us']:g} us of processor for each message, at its sender")
    if cost := one["software"]:
        costs = f"{cost['message_us']:g} us of each message between nodes, {cost['within_us']:g} within"
        lines.append(f"software   {one['backend']}: {costs} ({cost['name']}: {cost['source']})")
    return lines


def _case(one: dict[str, Any]) -> tuple[str, int, int]:
    return one["collective"], one["ranks"], one["bytes"]
