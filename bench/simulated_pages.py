# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/measurements/simulated, from what bench/simulated_tables.py has put there; see figures.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "measurements" / "simulated"
OURS, VENDORS = "lanecast", "ring-per-nic"
NOT_YET = "not yet"
EQUAL = 0.01  # of the fastest time
THREE = ("all_gather", "reduce_scatter", "all_reduce")

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
Known = dict[tuple[str, int, int, str], dict[str, Any]]  # by collective, ranks, MiB, backend


def read() -> dict[str, dict[str, Any]]:
    return {file.stem: json.loads(file.read_text()) for file in sorted(FOLDER.glob("*.json"))}


def known_of(file: dict[str, Any]) -> Known:
    return {(row["collective"], row["ranks"], row["mebibytes"], row["backend"]): row for row in file["rows"]}


def planned(file: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    return [
        (name, ranks, size, backend)
        for grid in file["grids"]
        for name in grid["collectives"]
        for ranks in grid["ranks"]
        for size in grid["mebibytes"]
        for backend in grid["backends"]
    ]


def backends_of(file: dict[str, Any], collective: str) -> list[str]:
    return list(dict.fromkeys(backend for name, _, _, backend in planned(file) if name == collective))


def size_text(mebibytes: int) -> str:
    return f"{mebibytes // 1024} GiB" if mebibytes >= 1024 else f"{mebibytes} MiB"


def ms_text(us: float) -> str:
    return f"{us / 1000:.3g}"


def time_text(row: dict[str, Any]) -> str:
    return ms_text(row["us"]) + ("\\*" if "simulated_on" in row else "")


def said(collective: str) -> str:
    return collective.replace("_", "-")


def faster(known: Known, collective: str, ranks: int, size: int, other: str) -> float | None:
    """How many times as long as the library's choice the other takes. The halves of a ring's all-reduce may hold each
    other up; then they count one after the other, as a library can run them.
    """
    mine, its = (known.get((collective, ranks, size, backend)) for backend in (OURS, other))
    if not mine or not its:
        return None
    halves = [known.get((half, ranks, size, other)) for half in ("reduce_scatter", "all_gather")]
    if collective == "all_reduce" and other == VENDORS and all(halves):
        return float(min(its["us"], sum(half["us"] for half in halves if half)) / mine["us"])
    return float(its["us"] / mine["us"])


def lines_of(file: dict[str, Any], known: Known, collective: str) -> list[list[str]]:
    backends, points = backends_of(file, collective), set(planned(file))
    other = backends[1]
    lines = []
    for ranks, size in dict.fromkeys((at[1], at[2]) for at in planned(file) if at[0] == collective):
        row = known.get((collective, ranks, size, OURS))
        if not any((collective, ranks, size, backend) in known for backend in backends):
            continue
        times = faster(known, collective, ranks, size, other)
        cells = []
        for backend in backends[1:]:
            at = (collective, ranks, size, backend)
            cells.append(time_text(known[at]) if at in known else NOT_YET if at in points else "-")
        way = f"`{row['algorithm']}`, {row['chunks']}" if row else NOT_YET
        bound_us = next(each["bound_us"] for at, each in known.items() if at[:3] == (collective, ranks, size))
        bound = ms_text(bound_us) if bound_us else "-"
        lines.append([f"{ranks:,}", size_text(size), time_text(row) if row else NOT_YET, way, *cells,
                      NOT_YET if times is None else f"**{times:.2f}**", bound])  # fmt: skip
    return lines


def section(file: dict[str, Any], known: Known, collective: str, table: Table) -> str:
    backends = backends_of(file, collective)
    lines = lines_of(file, known, collective)
    headings = ("ranks", "size", "`lanecast`", "its algorithm and chunks", *(f"`{name}`" for name in backends[1:]),
                f"`{backends[1]}` over `lanecast`", "bound of the NICs")  # fmt: skip
    body = table(headings, lines) if lines else "Not simulated yet.\n"
    return f"## {said(collective).capitalize()}, simulated\n\n{body}\n"


def choices(file: dict[str, Any], known: Known, table: Table) -> str:
    """How good the default choice is among what a call can take, where all of it has been simulated."""
    lines = []
    for collective, ranks in dict.fromkeys((at[0], at[1]) for at in planned(file)):
        others = [name for name in backends_of(file, collective) if name not in {OURS, VENDORS}]
        sizes = dict.fromkeys(at[2] for at in planned(file) if at[:2] == (collective, ranks))
        lost = []
        for size in sizes:
            rows = [known.get((collective, ranks, size, name)) for name in (OURS, *others)]
            if all(rows):
                lost.append(rows[0]["us"] / min(row["us"] for row in rows if row) - 1)  # type: ignore[index]
        if lost:
            right = sum(each < EQUAL for each in lost)
            percents = (f"{100 * each:.1f}" for each in (sum(lost) / len(lost), max(lost)))
            lines.append([said(collective), f"{ranks:,}", f"{right} of {len(lost)}", *percents])
    if not lines:
        return ""
    return f"""## How good the default choice is, simulated

*Right* counts the sizes at which `lanecast` is within 1 % of the fastest column that a call can take. What it loses is
time, as a share of the fastest one's.

{table(("collective", "ranks", "right", "mean loss, %", "worst loss, %"), lines)}
"""


def missing(file: dict[str, Any], known: Known, table: Table) -> str:
    left: dict[tuple[int, str], int] = {}
    for collective, ranks, size, backend in planned(file):
        if (collective, ranks, size, backend) not in known:
            left[ranks, collective] = left.get((ranks, collective), 0) + 1
    if not left:
        return ""
    lines = [[f"{ranks:,}", said(name), str(count)] for (ranks, name), count in sorted(left.items())]
    return f"""## Not simulated yet

`python bench/simulated_tables.py` goes on with these points. It needs SimGrid.

{table(("ranks", "collective", "points"), lines)}"""


def starred(file: dict[str, Any]) -> str:
    ranks = max((row.get("simulated_on", 0) for row in file["rows"]), default=0)
    if not ranks:
        return ""
    return f"""- \\* A ring in one chunk was simulated on {ranks} ranks, with parts as large. Its time grows with its
  steps. Rings that were simulated whole differ from that by 0.04 % at most.
"""


def page(file: dict[str, Any], table: Table) -> str:
    known = known_of(file)
    collectives = dict.fromkeys(name for name, *_ in planned(file))
    platform = [
        [path, each["value"], "assumed" if each["source"].startswith("assumed") else ""]
        for path, each in file["platform"].items()
    ]
    slowest = max(file["rows"], key=lambda row: row["simulating_s"], default=None)
    took = ""
    if slowest:
        took = f"The slowest point took {slowest['simulating_s']:.0f} s, beside other work. "
        took += f"The largest took {max(row['simulator_MiB'] for row in file['rows']):,} MiB.\n"
    body = "".join(section(file, known, name, table) for name in collectives)
    body += choices(file, known, table) + missing(file, known, table)
    text = f"""# {file["name"]}, simulated

**No figure of this page was measured.** The library's own plans and executor ran on a simulated machine.
[Planning for many ranks](../history/scaling.md#how-true-it-is) says what a simulation cannot show, and
[who is compared](../history/scaling.md#who-is-compared). All rows hold for one version of the library.

- Times are in milliseconds. No software is counted.
- `lanecast` is the default choice, with the chunks that the library takes.
- The size is the full buffer. For an all-to-all it is what one rank brings.
- "Not yet" is a point that has not been simulated. A dash is a point that is not planned.
- The halves of a ring's all-reduce may hold each other up. `{VENDORS}` over `{OURS}` takes them one after the other
  where that is faster.
{starred(file)}
{took}
{body}
## The machine

{table(("figure", "value", ""), platform)}"""
    return text.rstrip() + "\n"


def mean(known: Known, collective: str, ranks: int, sizes: Sequence[int]) -> str:
    ratios = [faster(known, collective, ranks, size, VENDORS) for size in sizes]
    found = [ratio for ratio in ratios if ratio is not None]
    if not found:
        return NOT_YET
    sizes_of = "" if len(found) == len(ratios) else f", {len(found)} of {len(ratios)} sizes"
    return f"**{prod(found) ** (1 / len(found)):.2f}** ({min(found):.2f} to {max(found):.2f}{sizes_of})"


def summary(files: dict[str, dict[str, Any]], table: Table) -> str:
    lines = []
    for name, file in files.items():
        known, grid = known_of(file), file["grids"][0]
        for ranks in grid["ranks"]:
            means = [mean(known, collective, ranks, grid["mebibytes"]) for collective in THREE]
            if set(means) != {NOT_YET}:
                lines.append([f"[{file['name']}](simulated/{name}.md)", f"{ranks:,}", *means])
    return table(("machine", "ranks", *map(said, THREE)), lines)
