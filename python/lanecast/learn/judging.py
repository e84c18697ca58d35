# SPDX-License-Identifier: Apache-2.0
"""How good choices are: how often the fastest, and what time they lose beside it, on cases that were not trained on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lanecast.learn.cases import EQUAL, Case
from lanecast.learn.training import Fitted, fifths
from lanecast.profiles.model import Trained

LEARNED, COST_MODEL, MEASURED = "learned", "cost model", "measured before"
HELD_OUT, IN_TURN, AGAIN = "held-out fifth", "each fifth in turn", "every second round"
UNSEEN_RANKS, UNSEEN_SIZES = "unseen ranks", "unseen sizes"
ALL = "all"  # collectives

_OF_A_DOUBLING = 4  # sizes that are rounded to whole elements of each rank are to be one

Chooser = Callable[[Case], str]


@dataclass(frozen=True)
class Judged:
    """One way to choose over some cases. Regret: share of the best's time that a choice takes more."""

    collective: str
    cases: str  # HELD_OUT, AGAIN; IN_TURN, UNSEEN_…: each fifth, number of ranks or size by one trained on the others
    chooser: str
    size: int
    correct: int
    equal: int  # these, and those that take next to no longer
    mean_regret: float
    worst_regret: float
    mean_between_rounds: float | None  # regret with the best named by other rounds; None where nothing was timed again

    @property
    def accuracy(self) -> float:
        return self.correct / self.size

    @property
    def as_good(self) -> float:
        return self.equal / self.size


def by_model(trained: Trained) -> Chooser:
    """As the core chooses: where it was trained, by the vote among the classes that this case has."""
    svm = trained.learned().svm

    def choose(case: Case) -> str:
        if not (_within(case.bytes, trained.bytes) and _within(case.ranks, trained.ranks)):
            return by_cost_model(case)
        at = svm.vote(case.features, [name in case.seconds for name in trained.algorithms])
        return trained.algorithms[at] if at >= 0 else by_cost_model(case)

    return choose


def _within(number: int, span: Sequence[int]) -> bool:
    return span[0] <= number <= span[1]


def by_cost_model(case: Case) -> str:
    return min(case.predicted_s, key=case.predicted_s.__getitem__)


def always(name: str) -> Chooser:
    """One algorithm everywhere; on a single node, which has no lanes, the same without levels."""
    flat = name[name.index("(") + 1 :].partition(",")[0] if "(" in name else name
    return lambda case: name if name in case.seconds else flat


def judge(fitted: Fitted, cases: Sequence[Case]) -> list[Judged]:
    """The held-out fifth, beside what else one could choose by; then each fifth, number of ranks and size in turn.

    Those in turn keep the parameters that were chosen without the first fifth. At the end, where calls were timed more
    than once, how well these times would choose among themselves: nobody can be asked for more.
    """
    others = [name for name in _names(cases) if _is_everywhere(always(name), cases)]
    choosers = {
        LEARNED: by_model(fitted.trained),
        COST_MODEL: by_cost_model,
        **{f"always {name}": always(name) for name in others},
    }
    collective = fitted.trained.collective
    found = [
        _judged((collective, HELD_OUT, name), _choices(choose, fitted.held_out)) for name, choose in choosers.items()
    ]
    in_turn = {
        IN_TURN: fifths(cases),
        UNSEEN_RANKS: _without_each(cases, lambda case: case.ranks),
        UNSEEN_SIZES: _without_each(cases, lambda case: round(math.log2(case.bytes) * _OF_A_DOUBLING)),
    }
    for name, splits in in_turn.items():
        choices = [choice for kept, others in splits for choice in _choices(by_model(fitted.refit(kept)), others)]
        if choices:
            found.append(_judged((collective, name, LEARNED), choices))
            found.append(_judged((collective, name, COST_MODEL), [(case, by_cost_model(case)) for case, _ in choices]))
    if again := [choice for case in cases for choice in _measured_again(case)]:
        found.append(replace(_judged((collective, AGAIN, MEASURED), again), mean_between_rounds=0.0))  # beside itself
    return found


def _without_each(cases: Sequence[Case], of: Callable[[Case], int]) -> list[tuple[list[Case], list[Case]]]:
    """(the others, those of one number) for each but the ends, beyond which a machine would not be asked."""
    inner = sorted(set(map(of, cases)))[1:-1]
    return [([c for c in cases if of(c) != number], [c for c in cases if of(c) == number]) for number in inner]


def together(judged: Sequence[Judged]) -> list[Judged]:
    """Where a collective has several machines, their rows in one; behind them all collectives, where those are several.

    Only of choosers that all of them have.
    """
    found: dict[tuple[str, str, str], list[Judged]] = {}
    for row in judged:
        found.setdefault((row.collective, row.cases, row.chooser), []).append(row)
    machines = {row.collective: len(found[row.collective, HELD_OUT, LEARNED]) for row in judged}
    if sum(machines.values()) == len(machines):
        return list(judged)
    sums = [_sum(rows) for (name, *_), rows in found.items() if len(rows) == machines[name]]
    by_cases: dict[tuple[str, str], list[Judged]] = {}
    for row in sums:
        by_cases.setdefault((row.cases, row.chooser), []).append(row)
    every = [replace(_sum(rows), collective=ALL) for rows in by_cases.values() if len(rows) == len(machines)]
    return [*sums, *(every if len(machines) > 1 else [])]


def _sum(rows: Sequence[Judged]) -> Judged:
    size = sum(row.size for row in rows)
    between = [row.mean_between_rounds for row in rows if row.mean_between_rounds is not None]
    return replace(
        rows[0], size=size, correct=sum(row.correct for row in rows), equal=sum(row.equal for row in rows),
        mean_regret=sum(row.mean_regret * row.size for row in rows) / size,
        worst_regret=max(row.worst_regret for row in rows),
        mean_between_rounds=sum(b * row.size for b, row in zip(between, rows, strict=True)) / size
        if len(between) == len(rows) else None,
    )  # fmt: skip


def _measured_again(case: Case) -> list[tuple[Case, str]]:
    """The best of every second round, as the rounds between judge it, and the other way round."""
    if not case.is_repeated:
        return []
    even, odd = case.every_second_round(0), case.every_second_round(1)
    return [(odd, even.best), (even, odd.best)]


def _choices(choose: Chooser, cases: Sequence[Case]) -> list[tuple[Case, str]]:
    return [(case, choose(case)) for case in cases]


def _judged(what: tuple[str, str, str], choices: Sequence[tuple[Case, str]]) -> Judged:
    lost = [case.lost(name) for case, name in choices]
    equal = sum(share <= EQUAL for share in lost)
    again = [case.lost_between_rounds(name) for case, name in choices]
    between = statistics.mean(again) if any(case.is_repeated for case, _ in choices) else None
    return Judged(*what, len(lost), lost.count(0), equal, statistics.mean(lost), max(lost), between)


def _names(cases: Sequence[Case]) -> list[str]:
    """What wins somewhere, and rings, which are what vendors' libraries do."""
    winners = {case.best for case in cases}
    return sorted({name for case in cases for name in case.seconds if name in winners or "ring" in name})


def _is_everywhere(choose: Chooser, cases: Sequence[Case]) -> bool:
    return all(choose(case) in case.seconds for case in cases)
