# SPDX-License-Identifier: Apache-2.0
"""`lanecast scale --published`: what papers publish in numbers beside what a simulation of wires gives, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from lanecast.bench.software import software
from lanecast.scale import build, contenders, platform, point
from lanecast.scale import software as costs
from lanecast.scale.contenders import Case
from lanecast.scale.published import BOUND, Claim, load
from lanecast.scale.tables import bound_Bps, say

_NOT_SIMULATED = "not simulated"
_ROUNDED = 0.005  # less is no percent
_HEADINGS = ("source", "machine", "what", "published", "simulated", "deviation", "likely reason")

Seconds = Callable[[Case, str, int], float]


@dataclass(frozen=True)
class Compared:
    """A claim, and what came of its calls: for each how many times as long the others take; none: not simulated."""

    claim: Claim
    ratios: list[float]
    with_software: list[float] = field(default_factory=list)  # of the same calls

    def row(self) -> dict[str, Any]:
        """As it is written to JSON."""
        simulated = self.claim.simulated(self.ratios) if self.ratios else None
        deviation = None if simulated is None else self.claim.deviation(simulated)
        row = {**asdict(self.claim), "ratios": self.ratios, "simulated": simulated, "deviation": deviation}
        if self.with_software:
            row["with_software"] = self.claim.simulated(self.with_software)
        return row


def published(most_ranks: int, json_file: Path | None, software_too: bool = False) -> None:
    """Simulate what has no more than so many ranks, from the fewest on, and print the table.

    software_too: once more with what libraries' software adds to each message.
    """
    simulator = build.simulator(say)

    def seconds(case: Case, name: str, chunks: int, software_too: bool = False) -> float:
        met = contenders.on(name, case)
        plan = contenders.plan(name, met, chunks)
        extra = costs.words(costs.cost_of(met.machine, name, plan.algorithm)) if software_too else []
        return point.run(simulator, [*platform.words(met.machine), *extra, *plan.words(met)], say).seconds

    claims = load()
    compared: dict[int, Compared] = {}
    for at in sorted(range(len(claims)), key=lambda k: _ranks(claims[k])):
        claim = claims[at]
        simulated = bool(claim.machines) and _ranks(claim) <= most_ranks
        if simulated:
            say(f"[{len(compared) + 1}/{len(claims)}] {claim.source}: {claim.says}")
        compared[at] = compare(claim, seconds) if simulated else Compared(claim, [])
        if simulated and software_too:
            again = compare(claim, partial(seconds, software_too=True)).ratios
            compared[at] = replace(compared[at], with_software=again)
    found = [compared[at] for at in range(len(claims))]
    run = {"simulated": True, "simgrid": simulator.simgrid, **software()}
    if json_file is not None:
        json_file.write_text(json.dumps([{**each.row(), "run": run} for each in found], indent=1) + "\n")
    by = f"SimGrid {run['simgrid']}, Lanecast {run['lanecast']} at commit {run['commit']}, `{run['command']}`"
    print(f"Simulated by {by}: no figure of the column *simulated* was measured.\n\n{table(found, software_too)}")


def compare(claim: Claim, seconds: Seconds) -> Compared:
    """Simulate all calls of a claim."""
    return Compared(claim, [_ratio(claim, case, seconds) for case in claim.cases()])


def table(compared: Sequence[Compared], software_too: bool = False) -> str:
    """In Markdown; software_too: with a column of what they are with libraries' software."""
    rows = [_HEADINGS, ("---",) * len(_HEADINGS), *(_cells(each) for each in compared)]
    if software_too:
        column = ["with software", "---", *(_text(each.row().get("with_software", [])) for each in compared)]
        rows = [(*row[:-1], cell, row[-1]) for row, cell in zip(rows, column, strict=True)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _ranks(claim: Claim) -> int:
    return max((case.ranks for case in claim.cases()), default=0)


def _ratio(claim: Claim, case: Case, seconds: Seconds) -> float:
    than = [_bound_s(case) if name == BOUND else seconds(case, name, 0) for name in claim.than]
    return min(than) / min(seconds(case, name, claim.chunks) for name in claim.ours)


def _bound_s(case: Case) -> float:
    rate = bound_Bps(case)
    assert rate is not None  # claims are of several nodes
    return case.bytes / rate


def _cells(each: Compared) -> tuple[str, ...]:
    claim, row = each.claim, each.row()
    names = ", ".join(dict.fromkeys(case.machine.name for case in claim.cases()))
    there = f"{claim.form} {_text(claim.published)}".strip()
    if row["simulated"] is None:
        return claim.source, names, claim.says, there, _NOT_SIMULATED, "", claim.reason
    none = "within" if len(claim.published) > 1 else "none"
    deviation = f"{row['deviation']:+.0%}" if abs(row["deviation"]) >= _ROUNDED else none
    return claim.source, names, claim.says, there, _text(row["simulated"]), deviation, claim.reason


def _text(numbers: Sequence[float]) -> str:
    """ "1.3 to 4.6", in three digits."""
    return " to ".join(dict.fromkeys(f"{number:.3g}" for number in numbers))
