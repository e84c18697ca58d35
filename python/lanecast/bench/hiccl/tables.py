# SPDX-License-Identifier: Apache-2.0
"""Measurements by HiCCL's protocol as text: every shape beside the bounds, and the peaks of each collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from lanecast.bench.figures import quartiles
from lanecast.bench.measure import Row
from lanecast.bench.tables import headed, number, placed, ratio, shares, size_text

_LEFT = ("who", "hierarchy")


def by_mode(rows: Sequence[Row]) -> list[list[Row]]:
    """On GPUs calls that were made one by one and those from graphs are apart."""
    modes = dict.fromkeys(row.get("mode") for row in rows)
    return [[row for row in rows if row.get("mode") == mode] for mode in modes]


def of_bound(row: Row, bound: str) -> float | None:
    """Which share of `between_GBps` or `within_GBps` was reached."""
    return row["algbw_GBps"] / row[bound] if row[bound] else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def results(rows: Sequence[Row]) -> Table:
    """One collective, all sizes."""
    first = rows[0]
    baseline = first["run"]["baseline"]
    through = ("in/NIC\n(%)", "out/NIC\n(%)") if first["nic_bytes"] else ()
    modes = [first["mode"]] if "mode" in first else []
    columns = (
        "size", *_LEFT, "time\n(ms)", "algbw\n(GB/s)", "of\nNICs", "of\nnode", f"x {baseline}", "#wrong",
        "quartiles\n(ms)", *("host\n(us)" for _ in modes), *through,
    )  # fmt: skip
    title = ", ".join([first["collective"], placed(first), *modes])
    table = headed(title + _limits(first), columns, _LEFT)
    for row in rows:
        low, high = quartiles(row["time_us_rounds"])
        faster = ratio(row, rows)
        nics = row["nic_bytes"].values() if row["nic_bytes"] else ()
        table.add_row(
            size_text(row["bytes"]), row["backend"], row["algorithm"], number(row["time_us"] / 1e3),
            number(row["algbw_GBps"]), *(_percent(of_bound(row, bound)) for bound in ("between_GBps", "within_GBps")),
            "-" if faster is None else f"{faster:.2f}",
            f"[red]{row['wrong']}[/red]" if row["wrong"] else "0", f"{number(low / 1e3)}-{number(high / 1e3)}",
            *(number(row["host_us"]) for _ in modes),
            *(shares([nic[way] for nic in nics]) for way in ("received", "sent") if nics),
        )  # fmt: skip
    return table


def _limits(row: Row) -> str:
    bounds = (("NICs", row["between_GBps"]), ("node", row["within_GBps"]))
    said = [f"{name} {number(bound)} GB/s" for name, bound in bounds if bound]
    return f"; bounds: {', '.join(said)}" if said else ""


def peak(rows: Sequence[Row]) -> Row:
    """The size at which most was moved per second."""
    return max(rows, key=lambda row: float(row["algbw_GBps"]))


def series(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By who ran it, in the order of the run."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["backend"], []).append(row)
    return found


def peaks(rows: Sequence[Row]) -> Table:
    """Of each collective and bar the best of all sizes, with the share of the lower bound: HiCCL's figure 8."""
    names = list(series(rows))
    mode = rows[0].get("mode")
    table = headed("peak algbw over the sizes, and its share of the lower bound" + (f", {mode}" if mode else ""),
                   ("collective", "bound\n(GB/s)", *names), _LEFT)  # fmt: skip
    for collective in dict.fromkeys(row["collective"] for row in rows):
        mine = series([row for row in rows if row["collective"] == collective])
        bound = 0.0
        cells = []
        for name in names:
            if name not in mine:
                cells.append("")
                continue
            top = peak(mine[name])
            share = top["bound_us"] and top["bound_us"] / top["time_us"]
            bound = share and top["algbw_GBps"] / share
            cells.append(f"{number(top['algbw_GBps'])} {_percent(share)}")
        table.add_row(collective, number(bound) if bound else "-", *cells)
    return table


def footer(run: dict[str, Any]) -> str:
    """What the columns mean."""
    if "gpus" in run:
        return _footer_on_gpus(run)
    return (
        f"{run['warmup']} rounds to warm up and {run['rounds']} measured ones; a round: from a global synchronisation "
        "until every rank may use its buffers again.\n"
        "time: median of the rounds. algbw: p*d/t with buffers of p*d bytes (GB = 1e9 bytes). m: pipeline depth. "
        f"x {run['baseline']}: the time of {run['baseline']} over this one.\n"
        "of NICs: of Table III's bound over what the NICs of two nodes carried in this run, one way for gather and "
        "scatter, both ways at once for\nthe others; of node: of the bound by what the ranks of a node send each other "
        "at once."
    )


def _footer_on_gpus(run: dict[str, Any]) -> str:
    nodes = "the NICs of two hosts" if run["hosts"] > 1 else "the links between two nodes of GPUs"
    return (
        "time: median over the rounds, of the slowest rank's mean call by the device's clock, calls back to back.\n"
        "host: what a call costs the host, likewise. algbw: p*d/t with buffers of p*d bytes (GB = 1e9 bytes).\n"
        'm: pipeline depth; "in 24": so many chunks, where messages would not fit into the rings otherwise. '
        f"x {run['baseline']}: the time of {run['baseline']} over this one.\n"
        f"of NICs: of Table III's bound over what {nodes} carried in this run, one way for gather and scatter,\n"
        "both ways at once for the others; of node: of the bound by what the GPUs of a node send each other at once.\n"
        "Within a host both were found by messages of 64 MiB. Programs use a link better, for over 100%."
    )
