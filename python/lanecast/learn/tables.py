# SPDX-License-Identifier: Apache-2.0
"""How good a model is, in the columns of PCCL's Table I, with what a wrong choice costs beside it."""

from __future__ import annotations

from collections.abc import Sequence

from lanecast.bench import tables
from lanecast.learn.judging import Judged
from lanecast.profiles.scope import MEASURED, Scope

_LEFT = ("collective", "cases", "chosen by")
_COLUMNS = ("test size", "correct", "accuracy (%)", "within 1 % (%)", "mean regret (%)", "worst regret (%)")
_BETWEEN = "mean regret\nbetween rounds (%)"


def label(scope: Scope) -> str:
    """What every table and plot says first."""
    return f"{scope.origin}: {scope}" + ("" if scope.origin == MEASURED else "; no figure here was measured")


def show(scope: Scope, judged: Sequence[Judged]) -> None:
    """One row for each way to choose."""
    out = tables.console()
    out.print(label(scope), soft_wrap=True)
    again = [_BETWEEN] if any(row.mean_between_rounds is not None for row in judged) else []
    table = tables.headed("", (*_LEFT, *_COLUMNS, *again), _LEFT)
    for row in judged:
        percent = (
            f"{row.accuracy:.1%}"[:-1],
            f"{row.as_good:.1%}"[:-1],
            f"{row.mean_regret * 100:.2f}",
            f"{row.worst_regret * 100:.1f}",
        )
        between = ["-" if row.mean_between_rounds is None else f"{row.mean_between_rounds * 100:.2f}"] if again else []
        table.add_row(row.collective, row.cases, row.chooser, str(row.size), str(row.correct), *percent, *between)
    out.print(table)
