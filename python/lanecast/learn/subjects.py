# SPDX-License-Identifier: Apache-2.0
"""What of a database is learned by a machine of its own: a collective, on GPUs of one host also how it is called."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lanecast import _core
from lanecast.bench.measure import GRAPH
from lanecast.learn.cases import Case, cases_of
from lanecast.learn.database import Database
from lanecast.learn.gpu_grid import HALF
from lanecast.learn.scopes import of_calls
from lanecast.profiles.model import CALLS
from lanecast.profiles.scope import Scope
from lanecast.tune.gpu_tuner import COPY_ENGINE, DIRECT

_HALF, _CAPTURED, _SYMMETRIC, _COPY_ENGINE, _FEW = CALLS
_WANTS = {DIRECT: _SYMMETRIC, COPY_ENGINE: _COPY_ENGINE}  # classes that some calls alone can take


@dataclass(frozen=True)
class Subject:
    """Cases of one machine; calls: as in its file."""

    collective: str
    calls: tuple[str, ...]
    cases: list[Case]


def subjects_of(database: Database, scope: Scope, collectives: Sequence[str]) -> list[Subject]:
    """Of a scope and those that differ from it in their calls alone; collectives: default: all that there are."""
    found: list[Subject] = []
    for one in of_calls(database.scopes(), scope):
        times = database.read(one)
        present = {configuration.collective for configuration in times}
        for name in (kind for kind in collectives or _core.KINDS if kind in present):
            found += _variants(Subject(name, _words(one), cases_of(name, one, times)), is_host=_is_host(one))
    known = {each.collective for each in found}
    found += [Subject(name, (), []) for name in collectives if name not in known]
    return sorted(found, key=lambda each: _core.KINDS.index(each.collective))


def _is_host(scope: Scope) -> bool:
    return bool(scope.gpu) and scope.one_host


def _words(scope: Scope) -> tuple[str, ...]:
    if not _is_host(scope):
        return ()
    dtype, mode, *few = scope.calls.split()
    holds = {_HALF: dtype == HALF, _CAPTURED: mode == GRAPH, _FEW: bool(few)}
    return tuple(word for word in CALLS if holds.get(word))


def _variants(subject: Subject, is_host: bool) -> Iterator[Subject]:
    """Borders between classes are where they are with all of them; so calls that lack some have machines of theirs."""
    if not is_host:
        yield subject
        return
    timed = {name for case in subject.cases for name in case.seconds}
    wanting = [name for name in _WANTS if name in timed]
    for taken in itertools.chain.from_iterable(itertools.combinations(wanting, k) for k in range(len(wanting) + 1)):
        without = set(wanting) - set(taken)
        words = {*subject.calls, *(_WANTS[name] for name in taken)}
        cases = [_only(case, without) for case in subject.cases]
        yield Subject(subject.collective, tuple(word for word in CALLS if word in words), cases)


def _only(case: Case, without: set[str]) -> Case:
    def kept(by_name: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in by_name.items() if name not in without}

    return replace(case, seconds=kept(case.seconds), predicted_s=kept(case.predicted_s), rounds=kept(case.rounds))
