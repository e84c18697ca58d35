# SPDX-License-Identifier: Apache-2.0
"""A GPU profile as tables: the lines, what calls take by them, and what that gains."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table

from lanecast import _core
from lanecast.bench import tables
from lanecast.bench.measure import Row
from lanecast.bench.settings import PLAIN, SYMMETRIC
from lanecast.profiles.gpu_profile import GpuProfile

_SIZES = [1 << k for k in range(12, 31, 3)]
_ENGINES = _core.PEER_ENGINES
_LEFT = ("collective", "type", "engine", "mode", "memory", "takes", "next best", "assumed", "tuned")
_CHOSEN = {PLAIN: ("lanecast", "tuned"), SYMMETRIC: ("lanecast+symm", "tuned+symm")}


def show(profile: GpuProfile) -> None:
    """Print everything that a profile says."""
    shape, console = profile.shape, tables.console()
    console.print(f"{shape.ranks} x {shape.gpu} on a host with {shape.cpu}; measured "
                  f"{profile.measured.get('when', 'at a time unknown')}")  # fmt: skip
    for table in (_fits(profile), _choices(profile)):
        console.print()
        console.print(table)


def show_gains(profile: GpuProfile, rows: Sequence[Row]) -> None:
    """Print the choices without and with a profile beside the best engine, with geometric means."""
    headings = ("collective", "mode", "memory", "size", "assumed", "tuned", "assumed (us)", "tuned (us)", "x assumed",
                "of best", *_ENGINES)  # fmt: skip
    table = tables.headed("what tuning gains, medians of rounds that alternate", headings, _LEFT)
    means: dict[str, list[tuple[float, float]]] = {}
    ordered = sorted(rows, key=lambda row: (_core.KINDS.index(row["collective"]), row["mode"], row["bytes"]))
    for (collective, mode), found in groupby(ordered, key=lambda row: (row["collective"], row["mode"])):
        of_collective: list[tuple[float, float]] = []
        for size, timed in groupby(found, key=lambda row: row["bytes"]):
            us = {row["backend"]: row["device_us"] for row in timed}
            memories = [memory for memory in _CHOSEN if _CHOSEN[memory][0] in us]
            of_collective += [_gain(table, profile, (collective, mode, memory, size), us) for memory in memories]
        table.add_row(collective, mode, "", "mean", *[""] * 4, *_means(of_collective))
        means.setdefault(mode, []).extend(of_collective)
    for mode, of_all in means.items():
        table.add_row("all", mode, "", "mean", *[""] * 4, *_means(of_all))
    tables.console().print()
    tables.console().print(table)


def _gain(
    table: Table, profile: GpuProfile, case: tuple[str, str, str, int], us: dict[str, float]
) -> tuple[float, float]:
    """A row. The direct engine is no choice on plain memory."""
    collective, mode, memory, size = case
    engines = {name.partition(":")[2]: time for name, time in us.items() if ":" in name}
    no_choice = {"peer_direct"} if memory == PLAIN else set()
    best_us = min(time for engine, time in engines.items() if engine not in no_choice)
    assumed_us, tuned_us = (us[name] for name in _CHOSEN[memory])
    ways = [
        _explained(profile, collective, size, memory, lines)
        for lines in (_core.PeerLines(profile.shape.gpu, profile.shape.ranks), profile.lines())
    ]
    gain = assumed_us / tuned_us, best_us / tuned_us
    table.add_row(collective, mode, memory, tables.size_text(size), *(way["algorithm"] for way in ways),
                  *(tables.number(time) for time in (assumed_us, tuned_us)), *(f"{share:.2f}" for share in gain),
                  *(tables.number(engines[engine]) if engine in engines else "" for engine in _ENGINES))  # fmt: skip
    return gain


def _means(gains: Sequence[tuple[float, float]]) -> list[str]:
    return [f"{statistics.geometric_mean(values):.3f}" for values in zip(*gains, strict=True)]


def _explained(profile: GpuProfile, collective: str, size: int, memory: str, lines: _core.PeerLines) -> dict[str, Any]:
    return _core.explain_on_peers(collective, size, profile.shape.ranks, memory == SYMMETRIC, lines)


def _fits(profile: GpuProfile) -> Table:
    headings = ("collective", "type", "engine", "from", "alpha (us)", "GB/s", "error")
    table = tables.headed("T = alpha + bytes / rate; from: size of the full buffer. error: of the fit, relative",
                          headings, _LEFT)  # fmt: skip
    for fit in profile.fits:
        rate = "-" if fit.beta_s_per_byte == 0 else tables.number(1e-9 / fit.beta_s_per_byte)
        of_type = "16-bit sums" if fit.half else ""
        table.add_row(fit.collective, of_type, fit.engine, tables.size_text(fit.from_bytes),
                      tables.number(fit.alpha_s * 1e6), rate, f"{fit.error:.1%}")  # fmt: skip
    return table


def _choices(profile: GpuProfile) -> Table:
    headings = ("collective", "memory", "takes", "next best", "size", "time (us)", "more")
    table = tables.headed("calls take", headings, _LEFT)
    lines = profile.lines()
    for collective in dict.fromkeys(fit.collective for fit in profile.fits):
        for size in _SIZES:
            for memory in (PLAIN, SYMMETRIC):
                best, *others = _explained(profile, collective, size, memory, lines)["candidates"]
                if memory == SYMMETRIC and "peer_direct" not in {best["algorithm"], *(c["algorithm"] for c in others)}:
                    continue
                second = others[0] if others else best
                table.add_row(collective, memory, best["algorithm"], second["algorithm"], tables.size_text(size),
                              tables.number(best["seconds"] * 1e6),
                              f"{second['seconds'] / best['seconds'] - 1:.0%}")  # fmt: skip
    return table
