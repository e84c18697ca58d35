# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/measurements and the README's table, written from the JSON files of its folders.

    python bench/figures.py

Each number stands once, in a file of its machine; means, slowest sizes and shares are computed here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import processes_data
import processes_pages
import simulated_pages

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "measurements"
THREE = ("all-gather", "reduce-scatter", "all-reduce")
SHARE_FROM = 16 << 20  # bytes; shorter calls are bounded by latency
TWO_HOSTS = [size << 20 for size in (1, 4, 16, 64, 256)]
BEGIN, END = "<!-- make figures: begin -->", "<!-- make figures: end -->"

Series = dict[str, Any]


def size_text(count: int) -> str:
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= step:
            return f"{count // step} {unit}"
    return f"{count} B"


def time_text(us: float) -> str:
    return f"{us / 1000:.3g} ms" if us >= 1000 else f"{us:.3g} µs"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def rows_of(series: Series) -> list[dict[str, Any]]:
    """`times_as_fast` is the quotient of the times, or a median over launches where the file has one."""
    rows = [dict(zip(series["columns"], row, strict=True)) for row in series.get("rows", ())]
    for row in rows:
        if row["other_us"] is not None:
            row.setdefault("times_as_fast", row["other_us"] / row["us"])
    return rows


def collectives(series: Series) -> list[str]:
    return list(dict.fromkeys([*series.get("means", ()), *(row["collective"] for row in rows_of(series))]))


def mean_and_slowest(series: Series, collective: str) -> tuple[float, float, int] | None:
    """Times as fast: the geometric mean from `since` bytes on, the least, and the size that has it."""
    if "means" in series:
        mean, least, size = series["means"][collective]
        return mean, least, size
    found = [(row["times_as_fast"], row["bytes"]) for row in rows_of(series)
             if row["collective"] == collective and row["bytes"] >= series["since"]]  # fmt: skip
    return (prod(ratio for ratio, _ in found) ** (1 / len(found)), *min(found)) if found else None


def cell(series: Series, collective: str) -> str:
    found = mean_and_slowest(series, collective)
    return f"**{found[0]:.2f}** ({found[1]:.2f} at {size_text(found[2])})" if found else "-"


def link(name: str, machine: dict[str, Any]) -> str:
    return f"[{machine['name']}](machines/{name}.md)"


def read() -> dict[str, dict[str, Any]]:
    machines = {file.stem: json.loads(file.read_text()) for file in sorted((FOLDER / "machines").glob("*.json"))}
    return dict(sorted(machines.items(), key=lambda item: item[1]["kind"] != "GPU"))


def every(machines: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], Series]]:
    for name, machine in machines.items():
        yield from ((name, machine, series) for series in machine["series"])


def training(machine: dict[str, Any]) -> list[list[str]]:
    return [
        [row["strategy"], row["model"], row["where"], f"{row['tokens_per_s']:,}", f"{row['other_tokens_per_s']:,}",
         f"**{row['tokens_per_s'] / row['other_tokens_per_s']:.2f}**"]
        for row in machine.get("training", ())
    ]  # fmt: skip


def speeds(machines: dict[str, dict[str, Any]], kind: str) -> str:
    rows = [
        [link(name, machine), series["title"], series["type"], series["beside"],
         size_text(series["since"]), *(cell(series, each) for each in THREE)]
        for name, machine, series in every(machines)
        if machine["kind"] == kind and series["beside"] and THREE[0] in collectives(series)
    ]  # fmt: skip
    return table(("machine", "what", "type", "beside", "from", *THREE), rows)


def share(series: Series, collective: str) -> str:
    found = [row["of_bound"] for row in rows_of(series)
             if row["collective"] == collective and row["bytes"] >= SHARE_FROM]  # fmt: skip
    return f"{min(found):.2f} to {max(found):.2f}"


def shares(machines: dict[str, dict[str, Any]]) -> str:
    rows = [
        [link(name, machine), series["title"], series["type"], *(share(series, each) for each in THREE)]
        for name, machine, series in every(machines)
        if "of_bound" in series.get("columns", ())
    ]
    return table(("machine", "what", "type", *THREE), rows)


def two_hosts(machines: dict[str, dict[str, Any]]) -> str:
    rows = []
    for name, machine, series in every(machines):
        if "two_hosts" in series:
            took = {row["bytes"]: row["us"] for row in rows_of(series) if row["collective"] == "all-reduce"}
            times = [time_text(took[size]) if size in took else "-" for size in TWO_HOSTS]
            rows.append([link(name, machine), series["two_hosts"], *times])
    return table(("machine", "network", *map(size_text, TWO_HOSTS)), rows)


def for_readme(machines: dict[str, dict[str, Any]]) -> str:
    rows = [
        [series["readme"], series["beside"], *(cell(series, each) for each in THREE)]
        for _, _, series in every(machines)
        if "readme" in series
    ]
    return table(("where", "beside", *THREE), rows)


def title(page: Path) -> str:
    return page.read_text().partition("\n")[0].removeprefix("# ")


def contents(text: str) -> str:
    """Links to the sections below, as GitHub names them."""
    anchors = {heading: re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
               for heading in re.findall("^## (.*)$", text, re.MULTILINE)}  # fmt: skip
    return "".join(f"- [{heading}](#{anchor})\n" for heading, anchor in anchors.items())


def summary(machines: dict[str, dict[str, Any]]) -> str:
    gaps = json.loads((FOLDER / "not-measured.json").read_text())
    trained = [[link(name, machine), *row] for name, machine in machines.items() for row in training(machine)]
    pages = [f"- [{machine['name']}](machines/{name}.md)\n" for name, machine in machines.items()]
    pages += [f"- [{file['name']}, simulated](simulated/{name}.md)\n" for name, file in simulated_pages.read().items()]
    pages += [f"- [{file.name}, several processes per rank](processes/{name}.md)\n"
              for name, file in processes_data.read().items()]  # fmt: skip
    notes = [f"- [{title(page)}](history/{page.name})\n" for page in sorted((FOLDER / "history").glob("*.md"))]
    body = f"""## GPUs, beside NCCL

{speeds(machines, "GPU")}
## CPUs, beside MPI

{speeds(machines, "CPU")}
## An all-reduce between two hosts

How long one call takes, by the size of the buffer, fp32. NICs in GB/s are emulated. Between two columns draw a straight
line: 25 MB take half as long again as 16 MiB where NICs are slow, and a third longer where they are fast.

{two_hosts(machines)}
## Share of what the NICs carry

The least and the greatest share of the bound, from {size_text(SHARE_FROM)} on. The bound is the bytes that must enter a
host, over what plain TCP streams carry in the same run. On emulated NICs of GB/s it is their nominal rate.

{shares(machines)}
## Training

Tokens a second, and their quotient. Jobs of one library differ by up to a fifth between hosts, so 0.85 to 1.15 is
no difference there.

{table(("machine", "strategy", "model", "where", "Lanecast", "NCCL", "times as fast"), trained)}
## Simulated on many ranks

**No figure of this section was measured.** A cell says how many times as fast the default choice is as a ring on every
NIC, which is what NCCL and RCCL do by wires. It is the mean over 16 MiB to 1 GiB, with the least and the greatest. It
says so where not all four sizes are simulated. The pages say what has not been simulated yet.

{simulated_pages.summary(simulated_pages.read(), table)}
## Not measured

{table(("what", "instead"), [[gap["what"], gap["instead"]] for gap in gaps])}
## Pages

A machine's page has every size. [Programs that nobody here wrote](programs.md) ran unmodified. Laboratory notes say
what was tried, what limits it, and with which commit.

{"".join(pages)}
{"".join(notes)}"""
    return f"""# Measurements

A cell says how many times as fast Lanecast is: **the geometric mean** over the sizes, and the slowest size in
parentheses. Above 1 Lanecast is faster. Both libraries ran in the same run, in turns. Every element was compared,
unless a machine's page says otherwise. `make figures` writes this page from the JSON files in `machines`, which have
every time and its command. Times are rounded there, so means may differ by 0.01 from those in the notes.

{contents(body)}
{body}"""


def series_of(series: Series) -> str:
    beside = f", beside {series['beside']}" if series["beside"] else ""
    text = f"## {series['title']}, {series['type']}{beside}\n\n```sh\n{series['command']}\n```\n\n"
    text += f"Commit {series['commit']}.{' ' + series['caveat'] if 'caveat' in series else ''}\n\n"
    if series["beside"]:
        means = [[each, cell(series, each)] for each in collectives(series)]
        text += table(("collective", f"times as fast from {size_text(series['since'])} on, slowest size"), means) + "\n"
    optional = [
        name for name in ("other_us", "times_as_fast", "of_bound") if any(row.get(name) for row in rows_of(series))
    ]
    lines = [
        [row["collective"], size_text(row["bytes"]), time_text(row["us"]),
         *("-" if row[name] is None else time_text(row[name]) if name == "other_us" else f"{row[name]:.2f}"
           for name in optional)]
        for row in rows_of(series)
    ]  # fmt: skip
    names = {
        "other_us": (series["beside"] or "").partition(" over")[0],
        "times_as_fast": "times as fast",
        "of_bound": "of the bound",
    }
    headings = ("collective", "size", "Lanecast", *(names[name] for name in optional))
    return text + (table(headings, lines) + "\n" if lines else "")


def page(machine: dict[str, Any]) -> str:
    text = f"# {machine['name']}\n\n{machine['machine']}. {machine['software']}.\n"
    text += f"Notes: [{machine['notes']}](../history/{machine['notes']}). `make figures` writes this page.\n\n"
    if any("times_as_fast" in series.get("columns", ()) for series in machine["series"]):
        text += "*Times as fast* comes from single launches. It may differ from the quotient of two times shown.\n\n"
    text += "".join(series_of(series) for series in machine["series"])
    if rows := training(machine):
        commits = ", ".join(dict.fromkeys(row["commit"] for row in machine["training"]))
        headings = ("strategy", "model", "where", "Lanecast, tokens a second", "NCCL", "times as fast")
        text += f"## Training\n\nCommits {commits}.\n\n{table(headings, rows)}"
    return text.rstrip() + "\n"


def pages() -> dict[Path, str]:
    """What each page has to be."""
    machines = read()
    made = {FOLDER / "machines" / f"{name}.md": page(machine) for name, machine in machines.items()}
    for name, file in simulated_pages.read().items():
        made[simulated_pages.FOLDER / f"{name}.md"] = simulated_pages.page(file, table)
    made |= processes_pages.pages(table)
    made[FOLDER / "README.md"] = summary(machines)
    readme = ROOT / "README.md"
    block = f"{BEGIN}\n\n{for_readme(machines)}\n{END}"
    made[readme] = re.sub(f"{BEGIN}.*{END}", lambda _: block, readme.read_text(), flags=re.DOTALL)
    return made


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text)
