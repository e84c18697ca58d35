# SPDX-License-Identifier: Apache-2.0
"""`lanecast plan verify --all`: runs through all claims, tells how far it is, and gives a table of what was proven."""

from __future__ import annotations

import sys
import time
from collections import Counter

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from lanecast import _core
from lanecast.bench import tables
from lanecast.plans.proofs import claims
from lanecast.wording import counted

_TELL_EVERY_S = 5.0  # where no bar can be drawn


def verify_all(counts: range) -> None:
    """Prove every claim for these rank counts; PlanError when any is refuted, once all have been tried."""
    start = time.perf_counter()
    proven: Counter[tuple[str, str]] = Counter()
    messages = 0
    refuted: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stderr = tables.console("stderr")
    told = start
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=sum(n * n for n in counts))  # about what a rank count costs
        for n in counts:
            progress.update(task, description=counted(n, "rank"))
            for claim in claims(n):
                try:
                    messages += claim.prove()
                    proven[claim.collective, claim.family] += 1
                except _core.PlanError as error:
                    place = f" root {claim.root}" * _core.has_root(claim.collective) + " in place" * claim.in_place
                    refuted.append(f"{claim.collective} by {claim.algorithm} on {claim.text}{place}: {error}")
            progress.advance(task, n * n)
            if not stderr.is_terminal and time.perf_counter() - told > _TELL_EVERY_S:
                told = time.perf_counter()
                print(f"proven up to {counted(n, 'rank')}: {proven.total()} cases …", file=sys.stderr, flush=True)
    console = tables.console()
    console.print(_summary(proven))
    seconds = time.perf_counter() - start
    print(
        f"{proven.total()} cases of {counts[0]} to {counts[-1]} ranks proven, {messages} messages, in {seconds:.1f} s"
    )
    if refuted:
        raise _core.PlanError(f"{len(refuted)} cases are wrong, the first: {refuted[0]}")


def _summary(proven: Counter[tuple[str, str]]) -> Table:
    table = Table("algorithm", box=None, header_style="bold", pad_edge=False)
    for collective in _core.KINDS:
        table.add_column(collective, justify="right")
    for family in dict.fromkeys(family for _, family in proven):
        table.add_row(family, *(str(proven[collective, family] or "-") for collective in _core.KINDS))
    return table
