# SPDX-License-Identifier: Apache-2.0
"""Rows of gpu_hosts.py as the tables of docs/measurements/history/two-gpus.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from communicator_memory import KIB, PLACES
from gpu_aims import LEAST, MEANS, RANGE, Aim
from lanecast.bench.measure import Row
from lanecast.bench.summary import ratios
from lanecast.bench.tables import number, ratio, shares, size_text
from nic_bound_report import Outcome, cases

_SHORT = {"float32": "fp32", "bfloat16": "bf16"}
_NAMES = {"lanecast": "plain", "lanecast+symm": "symmetric", "nccl": "NCCL", "torch_one_shot": "torch one-shot"}


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Nothing without lines."""
    if not lines:
        return []
    return ["", *(f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings), *lines))]


def spread(row: Row) -> str:
    """The median in microseconds, and half of what lies between the fastest and the slowest round."""
    times = row["time_us_rounds"]
    return f"{number(row['time_us'])} ± {number((max(times) - min(times)) / 2)}"


def aims(found: Sequence[Aim]) -> list[str]:
    lines = [
        [each.what, number(each.measured), f"{'≥' if each.at_least else '≤'} {each.aim:g}",
         f"missed by {number(each.missed_by)}" if each.missed_by else "reached"]
        for each in found
    ]  # fmt: skip
    return table(("what", "measured", "aim", ""), lines)


def memory(rows: Sequence[Row]) -> list[str]:
    lines = [[row["backend"], *(number(row[place] / KIB) for place in PLACES)] for row in rows]
    return table(("backend", *(f"{place} KiB" for place in PLACES)), lines)


def means(rows: Sequence[Row]) -> list[str]:
    """Geometric means over the baseline, and the least favourable size, of every collective on one host."""
    keys = dict.fromkeys((row["collective"], row["mode"], row["backend"]) for row in rows)
    dtypes = list(dict.fromkeys(row["dtype"] for row in rows))
    lines = []
    for collective, mode, backend in keys:
        if backend == rows[0]["run"]["baseline"]:
            continue
        mine = [row for row in rows if (row["collective"], row["mode"], row["backend"]) == (collective, mode, backend)]
        firsts = [next((row for row in mine if row["dtype"] == dtype), None) for dtype in dtypes]
        cells = [_mean(ratios(rows, first, *RANGE)) if first else "-" for first in firsts]
        if set(cells) == {"-"}:
            continue
        aim = f"{MEANS[collective]}, at least {LEAST}" if collective in MEANS else "-"
        lines.append([f"{collective}, {_NAMES.get(backend, backend)}, {mode}", *cells, aim])
    return table(("", *(_SHORT.get(dtype, dtype) for dtype in dtypes), "aim"), lines)


def _mean(found: dict[int, float]) -> str:
    if not found:
        return "-"
    least = min(found, key=lambda size: found[size])
    return f"**{statistics.geometric_mean(found.values()):.2f}**, at least {found[least]:.2f} ({size_text(least)})"


def side_by_side(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each type and mode: all backends' times, and those of ours beside the baseline's."""
    for dtype, mode in dict.fromkeys((row["dtype"], row["mode"]) for row in rows):
        here = [row for row in rows if (row["dtype"], row["mode"]) == (dtype, mode)]
        baseline = here[0]["run"]["baseline"]
        names = sorted(dict.fromkeys(row["backend"] for row in here), key=lambda name: name != baseline)
        headings = ["collective", "size"]
        for name in names:
            shown = _NAMES.get(name, name)
            headings += [f"{shown} µs", *([] if name == baseline else ["busbw GB/s", f"x {_NAMES[baseline]}"])]
        lines = []
        for collective, size in dict.fromkeys((row["collective"], row["bytes"]) for row in here):
            case = {row["backend"]: row for row in here if (row["collective"], row["bytes"]) == (collective, size)}
            cells = [cell for name in names for cell in _cells(case.get(name), here, name == baseline)]
            lines.append([collective, size_text(size), *cells])
        yield from ("", f"{_SHORT.get(dtype, dtype)}, {mode}:", *table(headings, lines))


def _cells(row: Row | None, rows: Sequence[Row], is_baseline: bool) -> list[str]:
    if row is None:
        return ["-"] * (1 if is_baseline else 3)
    times = ratio(row, rows)
    return [spread(row), *([] if is_baseline else [number(row["busbw_GBps"]), f"{times:.2f}" if times else "-"])]


def between_hosts(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each shape and type: times beside the bound, and where the bytes went."""
    headings = ("collective", "size", "bound ms", "", "time ms", "of bound", "x NCCL", "in per NIC %", "out per NIC %",
                "in, out %")  # fmt: skip
    for topology, dtype in dict.fromkeys((row["topology"], row["dtype"]) for row in rows):
        here = [row for row in rows if (row["topology"], row["dtype"]) == (topology, dtype)]
        lines = []
        for first, bound_us, outcomes in cases(here):
            baselines = [outcome.time_us for outcome in outcomes if outcome.is_baseline]
            for outcome in outcomes:
                times = f"{min(baselines) / outcome.time_us:.2f}" if baselines else "-"
                lines.append([first["collective"], size_text(first["bytes"]), number(bound_us / 1e3),
                              *_network_cells(outcome, bound_us, times)])  # fmt: skip
        goodput = max(row["goodput_GBps"] for row in here)
        title = f"{topology} (hosts x GPUs), {_SHORT.get(dtype, dtype)}; goodput of a host {goodput:.2f} GB/s:"
        yield from ("", title, *table(headings, lines))


def _network_cells(outcome: Outcome, bound_us: float, times: str) -> list[str]:
    row = outcome.rows[0]
    half_ms = (max(row["time_us_rounds"]) - min(row["time_us_rounds"])) / 2e3
    through = list(row["nic_bytes"].values())
    ways = [[nic[way] for nic in through] for way in ("received", "sent")]
    return [
        outcome.name,
        f"{number(outcome.time_us / 1e3)} ± {number(half_ms)}", f"{bound_us / outcome.time_us:.2f}", times,
        shares(ways[0]), shares(ways[1]), shares([sum(way) for way in ways]),
    ]  # fmt: skip


def training(rows: Sequence[Row]) -> list[str]:
    lines = [
        [row["model"], row["strategy"], _NAMES["nccl"] if row["backend"] == "nccl" else "Lanecast",
         f"{row['tokens_per_s']:.0f}", f"{row['times_as_fast']:.2f}",
         f"{row['step_s'] * 1e3:.1f} ± {row['step_spread_s'] * 1e3:.1f}",
         f"{row['loss_first']:.3f} to {row['loss_last']:.3f}", f"{row['loss_apart']:.1e}"]
        for row in rows
    ]  # fmt: skip
    return table(("model", "strategy", "backend", "tokens/s", "x NCCL", "step ms", "loss", "apart"), lines)
