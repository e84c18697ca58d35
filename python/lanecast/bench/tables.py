# SPDX-License-Identifier: Apache-2.0
"""Measurements as text, in the columns of nccl-tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from lanecast import launch
from lanecast.bench import machine
from lanecast.bench.figures import quartiles
from lanecast.bench.measure import Row
from lanecast.wording import counted

_LEFT = ("backend", "algorithm")
_COLUMNS = (
    "size\n(B)", "count\n(elements)", "type", "redop", *_LEFT, "time\n(us)", "algbw\n(GB/s)", "busbw\n(GB/s)", "#wrong",
    "quartiles\n(us)",
)  # fmt: skip
_BETWEEN_HOSTS = ("bound\n(us)", "of bound", "in/NIC\n(%)", "out/NIC\n(%)")
BOUND_NOTE = (
    "bound, of all_gather, reduce_scatter and all_reduce: bytes that must enter a host (S(N-1)/N of N hosts, for\n"
    "all_reduce twice that) over the goodput of plain TCP streams through all NICs at once, both ways.\n"
    "in/NIC, out/NIC: where the timed bytes went."
)
WIDE = 200  # wider than any table, so that a narrow terminal wraps lines and rich never cuts cells


def console(stream: str = "stdout") -> Console:
    """A console for "stdout" or "stderr" that knows what lies behind a launcher's pipe."""
    terminal = launch.is_terminal(stream)
    width = None if stream == "stderr" and terminal else WIDE
    return Console(stderr=stream == "stderr", force_terminal=terminal, width=width, highlight=False, emoji=False)


def number(value: float) -> str:
    """Four digits that matter, without an exponent."""
    if value == 0:
        return "0"
    digits = 0
    while digits < 4 and abs(value) * 10**digits < 100:
        digits += 1
    return f"{value:.{digits}f}"


def size_text(size: int) -> str:
    """ "64 KiB"; sizes that were rounded to fit the ranks keep a decimal."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def mpi_name(run: dict[str, Any]) -> str:
    """ "MPICH 5.0.2"; the libraries write it in different ways."""
    version: str = run["mpi"]["version"]
    return version.replace(" Version:", "").split(",")[0]


def ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """How many times faster than the baseline in the same case; None where that did not run it."""
    keys = ("collective", "bytes", "dtype", "topology", "mode")
    for other in rows:
        if other["backend"] == row["run"]["baseline"] and all(other.get(key) == row.get(key) for key in keys):
            return float(other["time_us"] / row["time_us"])
    return None


def of_copy(row: Row) -> float | None:
    """Least memory traffic over what copies moved in the same time; None across hosts, where memory is no bound."""
    run = row["run"]
    if run["hosts"] > 1:
        return None
    return float(row["least_traffic_bytes"] / (row["time_us"] * 1e3) / (2 * run["copy_GBps"]))


def headed(title: str, headings: Iterable[str], left: Sequence[str]) -> Table:
    """An empty table; the columns under the headings in `left` hold text, all others figures."""
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return table


def results(rows: Sequence[Row]) -> Table:
    """One collective on one topology, all sizes and backends."""
    first = rows[0]
    baseline = first["run"]["baseline"]
    place = "in place" if first["in_place"] else "out of place"
    compared = len({row["backend"] for row in rows}) > 1
    own = ("host\n(us)",) if "mode" in first else () if of_copy(first) is None else ("of copy",)
    limits = (*own, *(_BETWEEN_HOSTS if first["bound_us"] else ()))
    headings = (*_COLUMNS, *limits, *([f"x {baseline}"] if compared else []))
    modes = [first["mode"]] if "mode" in first else []
    table = headed(", ".join([first["collective"], place, placed(first), *modes]), headings, _LEFT)
    for row in rows:
        faster = ratio(row, rows)
        beside = ["-" if faster is None else f"{faster:.2f}"] if compared else []
        table.add_row(*_cells(row), *_limits(row), *beside)
    return table


def placed(row: Row) -> str:
    """ "8 ranks as 2x4", or only "8 ranks" where they have no levels."""
    ranks = counted(row["ranks"], "rank")
    return ranks if row["topology"] == str(row["ranks"]) else f"{ranks} as {row['topology']}"


def _cells(row: Row) -> list[str]:
    low, high = quartiles(row["time_us_rounds"])
    chunks = f" /{row['chunks']}" if (row["chunks"] or 1) > 1 else ""
    return [
        str(row["bytes"]),
        str(row["count"]),
        row["dtype"],
        row["op"] or "none",
        row["backend"],
        row["algorithm"] + chunks,
        number(row["time_us"]),
        number(row["algbw_GBps"]),
        number(row["busbw_GBps"]),
        f"[red]{row['wrong']}[/red]" if row["wrong"] else "0",
        f"{number(low)}-{number(high)}",
    ]


def _limits(row: Row) -> list[str]:
    """What bounds the time: the host on a GPU, the NICs between hosts, copies within one."""
    own = [number(row["host_us"])] if "mode" in row else []
    if row["bound_us"]:
        through = row["nic_bytes"].values()
        return [
            *own,
            number(row["bound_us"]),
            f"{row['bound_us'] / row['time_us']:.0%}",
            *(shares([nic[direction] for nic in through]) for direction in ("received", "sent")),
        ]
    if own:
        return own
    share = of_copy(row)
    return [] if share is None else [f"{share:.0%}"]


def shares(values: Sequence[float]) -> str:
    """ "50+50": each one's part of their sum, in percent."""
    return "+".join(f"{100 * value / (sum(values) or 1):.0f}" for value in values)


def footer(run: dict[str, Any]) -> str:
    """What the columns mean that nccl-tests does not have."""
    baseline = run["baseline"]
    if "gpus" in run:
        note = f"{BOUND_NOTE}\n" if run["nics"] else ""
        return note + (
            "time: median over the rounds, of the slowest rank's mean call by the device's clock, calls back to back. "
            "GB = 1e9 bytes.\nhost: what a call costs the host, likewise; in a graph its share of the replay.\n"
            f"x {baseline}: the time of {baseline} over this one; above 1 is faster than {baseline}."
        )
    notes = [
        "time: median over the rounds, of the slowest rank's mean call. GB = 1e9 bytes. algorithm /c: in c chunks.",
        f"x {baseline}: the time of {baseline} over this one; above 1 is faster than {baseline}.",
    ]
    if run["hosts"] == 1:
        notes.insert(
            1,
            "of copy: what all ranks must at least read and write, over what copies by all ranks move in that time "
            f"({run['copy_GBps']:.1f} GB/s copied); above 100% the caches help.",
        )
    if run["nics"]:
        notes.insert(1, BOUND_NOTE)
    return "\n".join(notes)


def banner(run: dict[str, Any]) -> str:
    return "\n".join(machine.lines(run))
